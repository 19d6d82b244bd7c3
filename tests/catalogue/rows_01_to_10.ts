/** Rows 1 to 10: deliveries whose signature is missing or malformed. */
import { misconfigured } from "./misconfigured.ts";
import { SECRETS } from "./secrets.ts";
import {
  appliedHeader,
  MISSING,
  OTHER_HEX,
  refused,
  refusedHeader,
} from "./signature_checks.ts";
import { endpoints, type Row } from "./stage.ts";

export const ROWS_01_TO_10: readonly Row[] = [
  {
    row: 1,
    input: "no signature header",
    check: async (stage) => {
      for (const endpoint of endpoints(stage)) {
        for (
          const headers of [
            {},
            { authorization: `Bearer ${endpoint.secret}` },
            { "x-signature": OTHER_HEX },
          ]
        ) {
          await refused(stage, endpoint, {
            headers: () => headers,
            is: MISSING,
          });
        }
      }
      await refused(stage, stage.standard, {
        headers: ({ id, time }) => ({
          "webhook-id": id,
          "webhook-timestamp": time,
        }),
        is: MISSING,
      });
    },
  },
  {
    row: 2,
    input: "an empty or blank header",
    check: async (stage) => {
      for (const endpoint of endpoints(stage)) {
        for (const value of ["", " ", "   \t  "]) {
          await refusedHeader(stage, endpoint, { value: () => value });
        }
      }
    },
  },
  {
    row: 3,
    input: 'the secret unset, "" or whsec_',
    check: async (stage) => {
      await misconfigured(stage, [undefined, ""], { says: "is not set" });
      await misconfigured(stage, ["", undefined], { says: "is not set" });
      await misconfigured(stage, ["whsec_", "whsec_"], { says: "empty" });
    },
  },
  {
    row: 4,
    input: "a secret with white space at its ends",
    check: async (stage) => {
      const { stripe, "hmac-sha256-hex": hex } = SECRETS;
      await misconfigured(stage, [` ${stripe}`, `${hex}\n`], {
        says: "white space",
      });
      await misconfigured(stage, [`${stripe}\t`, `${hex}old, ${hex}`], {
        says: "white space",
      });
    },
  },
  {
    row: 5,
    input: "v1= empty, or a truncated MAC",
    check: async (stage) => {
      for (const length of [0, 1, 2, 16, 32, 62]) {
        await refusedHeader(stage, stage.stripe, {
          value: ({ time, mac }) => `t=${time},v1=${mac.slice(0, length)}`,
        });
        await refusedHeader(stage, stage.hex, {
          value: ({ mac }) => mac.slice(0, length),
        });
      }
      for (const length of [0, 4, 40, 43]) {
        await refusedHeader(stage, stage.standard, {
          value: ({ mac }) => `v1,${mac.slice(0, length)}`,
        });
      }
    },
  },
  {
    row: 6,
    input: "63 or 65 hex characters, an extra byte",
    check: async (stage) => {
      for (const endpoint of [stage.stripe, stage.hex]) {
        for (
          const change of [
            (mac: string) => mac.slice(1),
            (mac: string) => mac.slice(0, -1),
            (mac: string) => `${mac}0`,
            (mac: string) => `0${mac}`,
            (mac: string) => `${mac}00`,
          ]
        ) {
          await refusedHeader(stage, endpoint, {
            value: ({ time, mac }) =>
              endpoint === stage.stripe
                ? `t=${time},v1=${change(mac)}`
                : change(mac),
          });
        }
      }
      await refusedHeader(stage, stage.standard, {
        value: ({ mac }) => `v1,${btoa(`${atob(mac)}\0`)}`,
      });
      await refusedHeader(stage, stage.standard, {
        value: ({ mac }) => `v1,${btoa(atob(mac).slice(1))}`,
      });
    },
  },
  {
    row: 7,
    input: "v1 without =",
    check: async (stage) => {
      const { stripe, standard } = stage;
      for (const entry of ["v1", "v1:MAC", "v1MAC"]) {
        await refusedHeader(stage, stripe, {
          value: ({ time, mac }) => `t=${time},${entry.replace("MAC", mac)}`,
        });
      }
      for (const entry of ["v1", "v1MAC", "v1=MAC", "MAC"]) {
        await refusedHeader(stage, standard, {
          value: ({ mac }) => entry.replace("MAC", mac),
        });
      }
    },
  },
  {
    row: 8,
    input: "a MAC that is not hex / not base64",
    check: async (stage) => {
      const invalid = [
        "z".repeat(64),
        "\u00ff".repeat(64),
        "0x".padEnd(64, "0"),
        "-1".padEnd(64, "0"),
        "%00".padEnd(64, "%"),
        "'; drop table subscriptions; --".padEnd(64, "-"),
      ];
      for (const mac of invalid) {
        await refusedHeader(stage, stage.stripe, {
          value: ({ time }) => `t=${time},v1=${mac}`,
        });
        await refusedHeader(stage, stage.hex, { value: () => mac });
        await refusedHeader(stage, stage.standard, {
          value: () => `v1,${mac.slice(0, 42)}-=`,
        });
      }
      await refusedHeader(stage, stage.stripe, {
        value: ({ time, mac }) => `t=${time},v1=${btoa(mac)}`,
      });
      await refusedHeader(stage, stage.standard, {
        value: () => `v1,${OTHER_HEX}`,
      });
    },
  },
  {
    row: 9,
    input: "upper-case hex",
    check: async (stage) => {
      await appliedHeader(
        stage,
        stage.stripe,
        ({ time, mac }) => `t=${time},v1=${mac.toUpperCase()}`,
      );
      await appliedHeader(stage, stage.hex, ({ mac }) => mac.toUpperCase());
      await appliedHeader(
        stage,
        stage.hex,
        ({ mac }) => mac.toUpperCase(),
        stage.gatewayUrl,
      );
    },
  },
  {
    row: 10,
    input: "only v0= or an unknown scheme",
    check: async (stage) => {
      for (const version of ["v0", "v2", "V1", "v10", "v", "sha256"]) {
        await refusedHeader(stage, stage.stripe, {
          value: ({ time, mac }) => `t=${time},${version}=${mac}`,
        });
        await refusedHeader(stage, stage.standard, {
          value: ({ mac }) => `${version},${mac}`,
        });
        await refusedHeader(stage, stage.hex, {
          value: ({ mac }) => `${version}=${mac}`,
        });
      }
      await refusedHeader(stage, stage.standard, {
        value: ({ mac }) => `v1a,${mac}`,
      });
    },
  },
];
