/** Rows 11 to 20: several signatures, long headers, times and ids. */
import { creation } from "./events.ts";
import {
  headersOf,
  signatureOf,
  type SignatureParts,
  signedHeaders,
  unixNow,
} from "./signature.ts";
import {
  appliedHeader,
  heldTolerance,
  listed,
  MALFORMED,
  MISMATCH,
  OTHER_HEX,
  otherMac,
  padded,
  refused,
  refusedByServer,
  refusedHeader,
  refusedTimes,
  refusedTwice,
} from "./signature_checks.ts";
import { endpoints, type Row } from "./stage.ts";

export const ROWS_11_TO_20: readonly Row[] = [
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
