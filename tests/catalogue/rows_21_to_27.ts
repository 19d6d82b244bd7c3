/** Rows 21 to 27: requests that are wrong, with any signature. */
import { assert, assertEquals } from "@std/assert";
import { waitUntil } from "../../scripts/common/wait_until.ts";
import { HANG_LIMIT_MS } from "../support/hang_limit.ts";
import {
  abandonedRequest,
  answered,
  headerLines,
  type RawRequest,
  rawRequest,
} from "../support/raw_request.ts";
import { post } from "../support/send.ts";
import { rowCounts } from "../support/tables.ts";
import { creation } from "./events.ts";
import {
  assertDiscreet,
  expectApplied,
  expectIgnored,
  expectRefused,
  type Refusal,
  type Send,
} from "./outcome.ts";
import { signedHeaders } from "./signature.ts";
import type { Row, Stage } from "./stage.ts";

const CAP = 1_048_576;
const TOO_LARGE = { status: 413, code: "body_too_large" };

/** A creation that provider A has signed, ready to be sent. */
function signedCreation({ stripe }: Stage) {
  const event = creation();
  const body = JSON.stringify(event);
  return { event, body, headers: signedHeaders(stripe, body) };
}

async function refused(stage: Stage, send: Send, is: Refusal): Promise<void> {
  await expectRefused(stage, { ...is, receiver: stage.stripe.receiver, send });
}

/** A signed request as it is sent, with that first line. */
function onTheWire(
  line: string,
  { body, headers }: ReturnType<typeof signedCreation>,
): RawRequest {
  const length = `Content-Length: ${body.length}`;
  return { line, headers: [...headerLines(headers), length], body };
}

/** Sends a body in two ways: of known length, and chunk by chunk. */
function sendLarge(
  url: string,
  { bytes, chunked }: { bytes: Uint8Array<ArrayBuffer>; chunked: boolean },
): Send {
  return () =>
    post(url, { body: chunked ? new Blob([bytes]).stream() : bytes });
}

/**
 * Bodies from one byte over the limit to many times the limit. Each is
 * answered: none meets a broken connection instead.
 */
async function refusedTooLarge(
  stage: Stage,
  { chunked }: { chunked: boolean },
): Promise<void> {
  for (const url of [stage.stripe.receiver.url, stage.gatewayUrl]) {
    for (const length of [CAP + 1, 2 * CAP, 5 * CAP]) {
      const bytes = new Uint8Array(length);
      for (let i = 0; i < 3; i++) {
        await refused(stage, sendLarge(url, { bytes, chunked }), TOO_LARGE);
      }
    }
  }
}

/**
 * A length beside chunks is void. Servers refuse it, or hand the chunks on with
 * the length still among the headers: then they are counted all the same, and
 * the answer does not wait for an end that never comes.
 */
async function refusedInTwoFramings(stage: Stage): Promise<void> {
  const { url } = stage.stripe.receiver;
  const before = await rowCounts(stage.sql);
  const chunk = `${CAP.toString(16)}\r\n${"x".repeat(CAP)}\r\n`;
  const answer = await answered(url, {
    line: `POST ${new URL(url).pathname}`,
    headers: ["Content-Length: 5", "Transfer-Encoding: chunked"],
    body: chunk.repeat(10),
  });
  assert([400, 413].includes(answer.status), `${answer.status}`);
  assertEquals(await rowCounts(stage.sql), before);
}

export const ROWS_21_TO_27: readonly Row[] = [
  {
    row: 21,
    input: "GET, HEAD, PUT, PATCH, DELETE, OPTIONS; TRACE",
    check: async (stage) => {
      const { url } = stage.stripe.receiver;
      const notAllowed = { status: 405, code: "method_not_allowed" };
      for (const method of ["GET", "HEAD", "OPTIONS"]) {
        await refused(stage, () => post(url, { method }), notAllowed);
      }
      for (const method of ["PUT", "PATCH", "DELETE"]) {
        const { body, headers } = signedCreation(stage);
        const send = () => post(url, { method, headers, body });
        await refused(stage, send, notAllowed);
      }
      const { pathname } = new URL(url);
      for (
        const line of [`TRACE ${pathname}`, `FOO ${pathname}`, "CONNECT x:443"]
      ) {
        const before = await rowCounts(stage.sql);
        const answer = await answered(
          url,
          onTheWire(line, signedCreation(stage)),
        );
        assertEquals(Math.floor(answer.status / 100), 4, line);
        assertEquals(await rowCounts(stage.sql), before);
      }
    },
  },
  {
    row: 22,
    input: "another path, //, *, ..",
    check: async (stage) => {
      const { url } = stage.stripe.receiver;
      const unknown = { status: 404, code: "path_unknown" };
      for (
        const target of [
          "/",
          "//",
          "//billing-webhook",
          "///billing-webhook",
          "/billing-webhook//",
          "/billing-webhook/other",
          "/BILLING-WEBHOOK",
          "/billing-webhook%2f",
          "/billing-webhook;x",
          "/billing-webhook/../other",
          "/billing-webhook/%2e%2e/other",
          "/..",
        ]
      ) {
        const send = () =>
          answered(url, onTheWire(`POST ${target}`, signedCreation(stage)));
        await refused(stage, send, unknown);
      }
      await refused(stage, () => answered(url, { line: "OPTIONS *" }), unknown);
      // No targets of a POST: some versions of the server refuse them before
      // the receiver sees them.
      for (
        const target of ["*", "billing-webhook", "", "http://[/billing-webhook"]
      ) {
        const before = await rowCounts(stage.sql);
        const answer = await answered(
          url,
          onTheWire(`POST ${target}`, signedCreation(stage)),
        );
        assert([400, 404].includes(answer.status), `${answer.status}`);
        assertEquals(answer.body, "");
        assertEquals(await rowCounts(stage.sql), before);
      }
      for (const target of ["/x/../billing-webhook", "/./billing-webhook?x"]) {
        const delivery = signedCreation(stage);
        await expectApplied(stage, {
          receiver: stage.stripe.receiver,
          event: delivery.event,
          send: () => answered(url, onTheWire(`POST ${target}`, delivery)),
        });
      }
    },
  },
  {
    row: 23,
    input: "Content-Encoding: gzip",
    check: async (stage) => {
      const { url } = stage.stripe.receiver;
      const unsupported = { status: 415, code: "encoding_unsupported" };
      for (
        const encoding of [
          "gzip",
          "GZIP",
          "br",
          "deflate",
          "identity, gzip",
          "x",
        ]
      ) {
        const { body, headers } = signedCreation(stage);
        const withEncoding = { ...headers, "content-encoding": encoding };
        const send = () => post(url, { headers: withEncoding, body });
        await refused(stage, send, unsupported);
      }
      const zipped = await gzip("0".repeat(20 * CAP));
      const headers = {
        ...signedHeaders(stage.stripe, zipped),
        "content-encoding": "gzip",
      };
      await refused(
        stage,
        () => post(url, { headers, body: zipped }),
        unsupported,
      );
    },
  },
  {
    row: 24,
    input: "a Content-Length over the cap",
    check: async (stage) => {
      await refusedTooLarge(stage, { chunked: false });
      const { url } = stage.stripe.receiver;
      // Announced, and never sent: the answer does not wait for it.
      const announced = () =>
        answered(url, {
          line: `POST ${new URL(url).pathname}`,
          headers: [`Content-Length: ${100_000 * CAP}`],
          body: "{",
        });
      await refused(stage, announced, TOO_LARGE);
    },
  },
  {
    row: 25,
    input: "a chunked body past the cap",
    check: async (stage) => {
      await refusedTooLarge(stage, { chunked: true });
      await refusedInTwoFramings(stage);
      const { receiver } = stage.hex;
      const frame = JSON.stringify({ type: "x", pad: "" }).length;
      const body = JSON.stringify({ type: "x", pad: "0".repeat(CAP - frame) });
      const headers = signedHeaders(stage.hex, body);
      await expectIgnored(stage, {
        receiver,
        send: () =>
          post(receiver.url, { headers, body: new Blob([body]).stream() }),
      });
    },
  },
  {
    row: 26,
    input: "a body that trickles",
    check: async ({ trickle }) => {
      assertEquals(await trickle.statuses, [408, 408, 408, 408]);
      await trickle.assertLogged();
    },
  },
  {
    row: 27,
    input: "the client goes away in the middle",
    check: async (stage) => {
      const { receiver } = stage.stripe;
      const before = await rowCounts(stage.sql);
      const seen = () => receiver.output().split("body_incomplete").length - 1;
      const line = `POST ${new URL(receiver.url).pathname}`;
      const parts: RawRequest[] = [
        { line, headers: ["Content-Length: 1000"], body: "{" },
        {
          line,
          headers: ["Transfer-Encoding: chunked"],
          body: '5\r\n{"id"\r\n',
        },
      ];
      const TIMES = 20;
      for (let i = 0; i < TIMES; i++) {
        for (const part of parts) await abandonedRequest(receiver.url, part);
      }
      await waitUntil(() => seen() >= TIMES * parts.length, {
        timeoutMs: HANG_LIMIT_MS,
      });
      assertEquals(seen(), TIMES * parts.length, receiver.output());
      assertEquals(await rowCounts(stage.sql), before);
      // Broken framing: the connection is closed, or the answer is 400.
      for (const body of ["zz\r\n{\r\n0\r\n\r\n", "ffffffffffffffffff\r\n"]) {
        const headers = ["Transfer-Encoding: chunked"];
        const answer = await rawRequest(receiver.url, { line, headers, body });
        assert(answer === undefined || answer.status === 400);
      }
      assertEquals(await rowCounts(stage.sql), before);
      assertDiscreet(receiver.output());

      const { event, body, headers } = signedCreation(stage);
      await expectApplied(stage, {
        receiver,
        event,
        send: () => post(receiver.url, { headers, body }),
      });
    },
  },
];

async function gzip(text: string): Promise<Uint8Array<ArrayBuffer>> {
  const stream = new Blob([text]).stream()
    .pipeThrough(new CompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}
