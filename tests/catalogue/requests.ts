/** Rows 21 to 27 and 73: requests that are wrong, with any signature. */
import { assert, assertEquals } from "@std/assert";
import { eventually } from "../support/hang_limit.ts";
import {
  abandonedRequest,
  type RawRequest,
  rawRequest,
  slowRequest,
} from "./raw_request.ts";
import { gatewayTo, startReceiver } from "../support/functions.ts";
import { rowCounts } from "../support/tables.ts";
import {
  APPLIED,
  assertDiscreet,
  deliver,
  IGNORED,
  refused,
  type Rows,
  type Sent,
} from "./deliver.ts";
import { creation } from "./stage.ts";

const CAP = 1_048_576;
const CHUNKED = "Transfer-Encoding: chunked";
/** The server itself answers, or the receiver, depending on the version. */
const REFUSED_BY_SERVER = { status: [400, 404], stored: "nothing" } as const;

const ANY_4XX = Array.from({ length: 100 }, (_, i) => 400 + i);

const withLine = (line: string): Sent => ({
  raw: (request) => ({ ...request, line }),
});
const withTarget = (target: string) => withLine(`POST ${target}`);

/** One byte over the limit, and twice the limit. */
const tooLarge = [CAP + 1, 2 * CAP].flatMap((length): Sent[] => {
  const sent = { body: new Uint8Array(length), headers: () => ({}) };
  return [sent, { ...sent, through: "gateway" }];
});

const frame = JSON.stringify({ type: "x", pad: "" }).length;
/** As long as the limit, and of a type that is not handled. */
const AT_THE_LIMIT = { type: "x", pad: "0".repeat(CAP - frame) };

const encoded = (encoding: string): Sent => ({
  headers: ({ time, mac }) => ({
    "provider-a-signature": `t=${time},v1=${mac}`,
    "content-encoding": encoding,
  }),
});

export const REQUESTS: Rows = {
  "21: GET, HEAD, PUT, PATCH, DELETE, OPTIONS; TRACE": {
    ...refused(405, "method_not_allowed"),
    sent: [
      { method: "GET" },
      { method: "HEAD" },
      { method: "OPTIONS" },
      { method: "PUT" },
      { method: "PATCH" },
      { method: "DELETE" },
      { ...withLine("TRACE /billing-webhook"), status: ANY_4XX },
      { ...withLine("FOO /billing-webhook"), status: ANY_4XX },
      { ...withLine("CONNECT x:443"), status: ANY_4XX },
    ],
  },
  "22: another path, //, *, ..": {
    ...refused(404, "path_unknown"),
    sent: [
      withTarget("/"),
      withTarget("//"),
      withTarget("//billing-webhook"),
      withTarget("/billing-webhook//"),
      withTarget("/.."),
      withTarget("/billing-webhook/../other"),
      withTarget("/billing-webhook/%2e%2e/other"),
      { raw: () => ({ line: "OPTIONS *" }) },
      { ...withTarget("*"), ...REFUSED_BY_SERVER },
      { ...withTarget("billing-webhook"), ...REFUSED_BY_SERVER },
      { ...withTarget(""), ...REFUSED_BY_SERVER },
      { ...withTarget("http://[/billing-webhook"), ...REFUSED_BY_SERVER },
      { ...withTarget("/x/../billing-webhook"), ...APPLIED },
      { ...withTarget("/./billing-webhook?x"), ...APPLIED },
    ],
  },
  "23: Content-Encoding: gzip": {
    ...refused(415, "encoding_unsupported"),
    sent: ["gzip", "GZIP", "br", "identity, gzip"].map(encoded),
  },
  "24: a Content-Length over the cap": {
    ...refused(413, "body_too_large"),
    sent: [
      ...tooLarge,
      // Announced, and never sent: the answer does not wait for it.
      {
        raw: ({ line }) => ({
          line,
          lines: [`Content-Length: ${100_000 * CAP}`],
          body: "{",
        }),
      },
    ],
  },
  "25: a chunked body past the cap": {
    ...refused(413, "body_too_large"),
    sent: [
      ...tooLarge.map((sent) => ({ ...sent, isChunked: true })),
      // A length beside chunks is void. Servers refuse it, or hand the chunks on with
      // the length: then they are counted all the same, and the answer does not wait for
      // an end that never comes.
      {
        raw: ({ line }) => ({
          line,
          lines: ["Content-Length: 5", CHUNKED],
          body: `${CAP.toString(16)}\r\n${"x".repeat(CAP)}\r\n`.repeat(10),
        }),
        status: [400, 413],
      },
      { to: "hex", body: AT_THE_LIMIT, isChunked: true, ...IGNORED },
    ],
  },
  "26: a body that trickles": {
    begin: async (stage) => {
      const receiver = stage.use(await startReceiver());
      const gateway = stage.use(await gatewayTo(receiver));
      const statuses = Promise.all([
        slowRequest(receiver.url),
        slowRequest(receiver.url, { isChunked: true }),
        slowRequest(receiver.url, { isSilent: true }),
        slowRequest(gateway.url),
      ]);
      statuses.catch(() => {}); // reported below

      return async () => {
        assertEquals(await statuses, [408, 408, 408, 408]);
        const lines = () =>
          receiver.log.filter(({ code }) => code === "body_too_slow");
        await eventually(() => lines().length > 3);
        assertEquals(lines().map(({ status }) => status), [408, 408, 408, 408]);

        for (const { duration_ms } of lines()) {
          const tookMs = Number(duration_ms);
          assert(tookMs > 9_500 && tookMs < 30_000, `${tookMs} ms`);
        }
        assertDiscreet(receiver.output());
      };
    },
  },
  "27: the client goes away in the middle": {
    check: async (stage) => {
      const { receiver } = stage.stripe;
      const before = await rowCounts(stage.sql);
      const line = `POST ${new URL(receiver.url).pathname}`;
      const parts: RawRequest[] = [
        { line, lines: ["Content-Length: 1000"], body: "{" },
        { line, lines: [CHUNKED], body: '5\r\n{"id"\r\n' },
      ];

      const sent = Array(20).fill(parts).flat();
      for (const part of sent) await abandonedRequest(receiver.url, part);
      const seen = () =>
        receiver.log.filter(({ code }) => code === "body_incomplete");
      await eventually(() => seen().length >= sent.length);
      assertEquals(seen().length, sent.length);

      // Broken framing: the connection is closed, or the answer is 400.
      for (const body of ["zz\r\n{\r\n0\r\n\r\n", "ffffffffffffffffff\r\n"]) {
        const request = { line, lines: [CHUNKED], body };
        const answer = await rawRequest(receiver.url, request);
        assert(answer === undefined || answer.status === 400);
      }

      assertEquals(await rowCounts(stage.sql), before);
      assertDiscreet(receiver.output());
      await deliver(stage, APPLIED);
    },
  },
  "73: a chunk line that ends in a bare LF, at the local gateway": {
    status: [400],
    stored: "nothing",
    sent: chunkedWrong(),
  },
};

/** Each body has a second request behind it, which must not be taken for one. */
function chunkedWrong(): Sent[] {
  const body = JSON.stringify(creation());
  const size = body.length.toString(16);
  return [
    "0;\n\r\n",
    `${size}\r\n${body}\r\n0;\n\r\n`,
    `${size};\n\r\n${body}\r\n0\r\n\r\n`,
    `${size}\r\n${body}\n0\r\n\r\n`,
    `${size}\r\n${body}\r\n0\r\nx: y\n\n`,
  ].map((chunks) => ({
    through: "gateway",
    body,
    raw: ({ line, lines = [] }) => ({
      line,
      lines: [
        CHUNKED,
        ...lines.filter((line) => !line.startsWith("Content-Length")),
      ],
      body: `${chunks}${line} HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n`,
    }),
  }));
}
