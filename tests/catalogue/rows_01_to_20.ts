/** Rows 1 to 20: what is wrong, or not quite, with a signature. */
import { misconfigured } from "./misconfigured.ts";
import { creation } from "./events.ts";
import {
  appliedHeader,
  heldTolerance,
  listed,
  MALFORMED,
  MISMATCH,
  MISSING,
  OTHER_HEX,
  otherMac,
  padded,
  refused,
  refusedByServer,
  refusedHeader,
  refusedTimes,
  refusedTwice,
} from "./signature_checks.ts";
import {
  headersOf,
  signatureOf,
  type SignatureParts,
  signedHeaders,
  unixNow,
} from "./signature.ts";
import { SECRETS } from "./secrets.ts";
import { endpoints, type Row } from "./stage.ts";

export const ROWS_01_TO_20: readonly Row[] = [
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
      const rubbish = [
        "z".repeat(64),
        "\u00ff".repeat(64),
        "0x".padEnd(64, "0"),
        "-1".padEnd(64, "0"),
        "%00".padEnd(64, "%"),
        "'; drop table subscriptions; --".padEnd(64, "-"),
      ];
      for (const mac of rubbish) {
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
  {
    row: 11,
    input: "two MACs, one valid",
    check: async (stage) => {
      for (const endpoint of [stage.stripe, stage.standard]) {
        const other = otherMac(endpoint);
        await appliedHeader(
          stage,
          endpoint,
          (parts) => listed(endpoint, parts, [parts.mac, other]),
        );
        await appliedHeader(
          stage,
          endpoint,
          (parts) => listed(endpoint, parts, [other, parts.mac]),
        );
      }
    },
  },
  {
    row: 12,
    input: "60 v1 entries, the last valid",
    check: async (stage) => {
      for (const endpoint of [stage.stripe, stage.standard]) {
        const others = (count: number) =>
          Array<string>(count).fill(otherMac(endpoint));
        for (const count of [59, 8]) {
          await refusedHeader(stage, endpoint, {
            value: (parts) =>
              listed(endpoint, parts, [...others(count), parts.mac]),
            is: MISMATCH,
          });
        }
        await appliedHeader(
          stage,
          endpoint,
          (parts) => listed(endpoint, parts, [...others(7), parts.mac]),
        );
      }
    },
  },
  {
    row: 13,
    input: "a signature header over 4 kB",
    check: async (stage) => {
      for (const endpoint of endpoints(stage)) {
        for (const length of [4_097, 16_000]) {
          await refusedHeader(stage, endpoint, {
            value: (parts) => padded(endpoint, parts, length),
          });
        }
        await refusedByServer(stage, endpoint);
      }
      for (const name of ["webhook-id", "webhook-timestamp"]) {
        await refused(stage, stage.standard, {
          headers: (parts) => ({
            ...headersOf(stage.standard, parts),
            [name]: "1".repeat(5_000),
          }),
          is: MALFORMED,
        });
      }
    },
  },
  {
    row: 14,
    input: "the header sent twice",
    check: async (stage) => {
      for (const endpoint of endpoints(stage)) {
        const body = JSON.stringify(creation());
        const headers = signedHeaders(endpoint, body);
        for (const name of Object.keys(headers)) {
          for (const other of [headers[name]!, "", OTHER_HEX]) {
            const twice = { body, headers, name, other };
            await refusedTwice(stage, endpoint, twice);
            if (endpoint === stage.standard) continue;
            await refusedTwice(stage, endpoint, {
              ...twice,
              url: stage.gatewayUrl,
            });
          }
        }
      }
    },
  },
  {
    row: 15,
    input: "two t=",
    check: async (stage) => {
      for (
        const value of [
          ({ time, mac }: SignatureParts) => `t=${time},t=${time},v1=${mac}`,
          ({ time, mac }: SignatureParts) => `t=1,t=${time},v1=${mac}`,
          ({ time, mac }: SignatureParts) => `t=${time},v1=${mac},t=1`,
          ({ time, mac }: SignatureParts) => `t=${time},v1=${mac},t=`,
        ]
      ) await refusedHeader(stage, stage.stripe, { value });
    },
  },
  {
    row: 16,
    input: "t= 123abc, -1, 1e9, 0x1, ' 1', 1.5, empty",
    check: async (stage) => {
      const now = unixNow();
      await refusedTimes(stage, [
        ...["123abc", "-1", "1e9", "0x1", " 1", "1.5", ""],
        ...[`${now}abc`, `+${now}`, `${now}.0`, ` ${now}`, `${now}n`],
        `0x${now.toString(16)}`,
        `${now / 1e9}e9`,
      ]);
    },
  },
  {
    row: 17,
    input: "301 s old; 299 s passes",
    check: (stage) =>
      heldTolerance(stage, { seconds: -301, code: "signature_too_old" }),
  },
  {
    row: 18,
    input: "301 s ahead; 299 s passes",
    check: (stage) =>
      heldTolerance(stage, { seconds: 301, code: "signature_too_far_ahead" }),
  },
  {
    row: 19,
    input: "t in milliseconds, or 40 digits",
    check: (stage) =>
      refusedTimes(stage, [
        String(Date.now()),
        "1".repeat(40),
        `${"0".repeat(30)}${unixNow()}`,
      ]),
  },
  {
    row: 20,
    input: "a webhook-id with a dot",
    check: async (stage) => {
      const { standard } = stage;
      for (const id of ["msg.1", ".", `msg_1.${unixNow()}`]) {
        const body = JSON.stringify(creation());
        const parts = signatureOf(standard, body, { id });
        await refused(stage, standard, {
          headers: () => headersOf(standard, parts),
          body,
          is: MALFORMED,
        });
      }
    },
  },
];
