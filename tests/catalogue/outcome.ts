/**
 * Checks of a delivery: the answer, the stored rows, and the line in the log.
 * Neither answer nor log may hold a secret, a signature, a payload or a stack
 * trace.
 *
 * @module
 */
import { assert, assertEquals, assertMatch } from "@std/assert";
import type postgres from "postgres";
import { waitUntil } from "../../scripts/common/wait_until.ts";
import { HANG_LIMIT_MS } from "../support/hang_limit.ts";
import type { Answer } from "../support/send.ts";
import type { ServedFunction } from "../support/serve_function.ts";
import { rowCounts, type StoredEvent, storedEvent } from "../support/tables.ts";
import { PAYLOAD_MARK, SECRETS } from "./secrets.ts";

/** Makes one request. */
export type Send = () => Promise<Answer>;

/** How a refused or filed delivery is answered, and what the log says. */
export interface Refusal {
  readonly status: number;
  /** In the line about the failure. */
  readonly code: string;
}

/** The whole reply for each status. */
const BODIES: Readonly<Record<number, string>> = {
  200: "OK",
  401: "Invalid signature",
  404: "",
  405: "",
  408: "",
  413: "",
  415: "",
  422: "Event is not valid",
  500: "Event could not be applied",
  503: "Try again later",
};
/** The reply for codes that share a status with others. */
const BODIES_BY_CODE: Readonly<Record<string, string>> = {
  body_empty: "Body is empty",
  body_incomplete: "",
  body_not_json: "Body is not valid JSON",
  body_not_text: "Body is not valid UTF-8",
  provider_misconfigured: "Receiver is not configured",
};
const FAILED = '"delivery failed"';

/** Checks that the delivery is refused, and nothing is stored. */
export async function expectRefused(
  { sql }: { sql: postgres.Sql },
  { receiver, send, status, code }: Refusal & {
    receiver: ServedFunction;
    send: Send;
  },
): Promise<Answer> {
  const before = await rowCounts(sql);
  const answer = await expectFailure(receiver, { send, status, code });
  assertEquals(await rowCounts(sql), before, "Something was stored");
  return answer;
}

/**
 * Checks that the delivery is filed in `failed_events`, once, and nowhere else.
 *
 * @param filed.as The event's id, or `sha256:` and the body's hash.
 * @returns the row
 */
export async function expectFiled(
  { sql }: { sql: postgres.Sql },
  { receiver, send, status, code, as }: Refusal & {
    receiver: ServedFunction;
    send: Send;
    as: string;
  },
): Promise<Record<string, unknown>> {
  const before = await rowCounts(sql);
  await expectFailure(receiver, { send, status, code });
  const { ledger, failures, notifications } = await storedEvent(sql, as);
  assertEquals([ledger, notifications], [[], []]);
  assertEquals(failures.map(({ error_code }) => error_code), [code]);
  assertEquals(await rowCounts(sql), {
    ...before,
    failed_events: before["failed_events"]! + 1,
  }, "Something else was stored");
  return failures[0]!;
}

/**
 * Checks that the delivery is acknowledged, and its event is in the ledger,
 * once.
 */
export async function expectApplied(
  { sql }: { sql: postgres.Sql },
  { receiver, send, event, outcome = "applied" }: {
    receiver: ServedFunction;
    send: Send;
    event: { id: string };
    outcome?: string;
  },
): Promise<StoredEvent> {
  const before = receiver.output().length;
  assertAnswer(await send(), 200);
  const stored = await storedEvent(sql, event.id);
  assertEquals(stored.ledger.map((row) => row.outcome), [outcome]);
  assertEquals(stored.failures.filter((row) => !row.resolved_at), []);
  assertDiscreet(receiver.output().slice(before));
  return stored;
}

/** Checks that the delivery is acknowledged, and nothing is stored. */
export async function expectIgnored(
  { sql }: { sql: postgres.Sql },
  { receiver, send }: { receiver: ServedFunction; send: Send },
): Promise<void> {
  const before = await rowCounts(sql);
  const written = receiver.output().length;
  assertAnswer(await send(), 200);
  assertEquals(await rowCounts(sql), before, "Something was stored");
  assertDiscreet(receiver.output().slice(written));
}

/** Checks that it fails with the status, and the log has one line about it. */
export async function expectFailure(
  receiver: ServedFunction,
  { send, status, code }: Refusal & { send: Send },
): Promise<Answer> {
  const before = receiver.output().length;
  const written = () => receiver.output().slice(before);
  const answer = await send();
  assertAnswer(answer, status, code);
  await waitUntil(() => written().includes(FAILED), {
    timeoutMs: HANG_LIMIT_MS,
    intervalMs: 1,
  });
  const lines = written().split("\n").filter((line) => line.includes(FAILED));
  assertEquals(
    lines.map((line) => JSON.parse(line)).map((line) => [
      line.code,
      line.status,
    ]),
    [[code, status]],
    written(),
  );
  assertDiscreet(written());
  return answer;
}

/**
 * Checks that the answer is the status, and exactly the text that goes with it.
 */
export function assertAnswer(
  answer: Answer,
  status: number,
  code = "",
): void {
  assertEquals(answer.status, status, answer.body);
  assertEquals(answer.body, BODIES_BY_CODE[code] ?? BODIES[status]);
  if (status === 405) assertEquals(answer.headers.get("allow"), "POST");
  if (status === 503) {
    assertMatch(answer.headers.get("retry-after") ?? "none", /^[1-9]\d*$/);
  }
}

/** Checks that a function's output holds nothing that was sent. */
export function assertDiscreet(output: string): void {
  const secrets = Object.values(SECRETS);
  const parts = secrets.map((secret) => secret.replace("whsec_", ""));
  for (const secret of [PAYLOAD_MARK, ...secrets, ...parts, "sb_secret"]) {
    assert(
      !output.includes(secret),
      `${secret} is in the log:\n${tail(output)}`,
    );
  }
  // The hash of a body is no signature.
  const rest = output.replaceAll(/sha256"?:"?[0-9a-f]{64}/g, "");
  for (
    const pattern of [
      /[0-9a-f]{32}/i, // a MAC in hex, or half of one
      /[A-Za-z0-9+/]{43}=/, // one in base64
      /\bv1[=,]/,
      /^\s*at .+:\d+:\d+/m, // a trace
      /^error:|Uncaught/m, // what ends a process
    ]
  ) {
    const found = pattern.exec(rest);
    assert(found === null, `${found?.[0]} is in the log:\n${tail(output)}`);
  }
}

/** Returns the last lines of a log, for a failed assertion. */
function tail(output: string): string {
  return output.split("\n").slice(-12).join("\n");
}
