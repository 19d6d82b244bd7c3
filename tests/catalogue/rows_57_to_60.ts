/** Rows 57 to 60: good events while the database or its API fails. */
import { assert, assertEquals, assertMatch } from "@std/assert";
import { startReceiver } from "../support/receiver.ts";
import type { LogLine } from "../support/serve_function.ts";
import { storedEvent } from "../support/tables.ts";
import { signed } from "./body_checks.ts";
import { creation, hashId, update } from "./events.ts";
import type { Fault } from "../support/api_proxy.ts";
import {
  assertAnswer,
  expectApplied,
  expectFailure,
  expectFiled,
  expectRefused,
  type Refusal,
} from "./outcome.ts";
import { SECRETS } from "./secrets.ts";
import { type Row, type Stage, stripeEndpoint } from "./stage.ts";

const UNAVAILABLE = { status: 503, code: "database_unavailable" };
const LOCKED = { status: 503, code: "record_locked" };
const NOT_RECORDED = { status: 503, code: "failure_not_recorded" };
const FAULT = { status: 500, code: "deployment_fault" };

/** Returns an answer in PostgREST's form. */
function refusal(status: number, code: string, message: string): Fault {
  return { status, body: { code, message, details: null, hint: null } };
}

/** Checks the log line about an event that is stored nowhere. */
function assertSaysWhich(line: LogLine, event: { id: string; type: string }) {
  const hash = hashId(JSON.stringify(event)).slice("sha256:".length);
  assertEquals(
    [line.code, line.provider, line.event_id, line.type, line.body_sha256],
    ["failure_not_recorded", "a", event.id, event.type, hash],
  );
}

/**
 * Checks that each fault files an event, which is applied when the fault is
 * over.
 */
async function filedByEach(
  stage: Stage,
  faults: readonly Fault[],
  is: Refusal,
): Promise<void> {
  const { receiver } = stage.behindFaults;
  for (const fault of faults) {
    const event = creation();
    const send = signed(stage.behindFaults, event);
    stage.faultyApi.fails({ billing_apply_events: fault });
    await expectFiled(stage, { ...is, receiver, send, as: event.id });
    const { error } = await receiver.logged((line) =>
      line.event_id === event.id
    );
    const code = codeOf(fault);
    assert(String(error).includes(code), `${code}: ${error}`);
    stage.faultyApi.fails({});
    const { failures } = await expectApplied(stage, { receiver, send, event });
    assert(failures[0]?.resolved_at instanceof Date);
  }
}

/**
 * Checks an event that cannot be filed either, and is applied when the faults
 * are over.
 */
async function storedNowhere(
  stage: Stage,
  { apply, record, says }: { apply: Fault; record: Fault; says: string },
): Promise<void> {
  const { receiver } = stage.behindFaults;
  const event = creation();
  const send = signed(stage.behindFaults, event);
  stage.faultyApi.fails({
    billing_apply_events: apply,
    billing_record_failed_event: record,
  });
  await expectRefused(stage, { ...NOT_RECORDED, receiver, send });
  const line = await receiver.logged((line) => line.event_id === event.id);
  assertSaysWhich(line, event);
  assert(String(line.error).includes(says), `${says}: ${line.error}`);
  stage.faultyApi.fails({});
  await expectApplied(stage, { receiver, send, event });
}

function codeOf(fault: Fault): string {
  const body = typeof fault === "object" ? fault.body : undefined;
  return typeof body === "object" && body !== null && "code" in body
    ? String(body.code)
    : "";
}

export const ROWS_57_TO_60: readonly Row[] = [
  {
    row: 57,
    input: "database or API down",
    check: async (stage) => {
      await using cutOff = await startReceiver({
        env: {
          SUPABASE_URL: "http://127.0.0.1:9",
          PROVIDER_A_SIGNING_SECRET: SECRETS.stripe,
        },
      });
      for (const event of [creation(), update()]) {
        const answer = await expectRefused(stage, {
          ...NOT_RECORDED,
          receiver: cutOff,
          send: signed(stripeEndpoint(cutOff), event),
        });
        assertMatch(answer.headers.get("retry-after") ?? "", /^\d+$/);
        const line = await cutOff.logged((line) => line.event_id === event.id);
        assertSaysWhich(line, event);
      }
      // PostgREST is there, and the database behind it is not; or a gateway is
      // there, and nothing behind it.
      const down = refusal(503, "PGRST000", "Could not connect");
      await filedByEach(stage, [
        down,
        refusal(503, "PGRST001", "Database client error"),
        refusal(503, "PGRST002", "Could not query the schema cache"),
        { status: 502, body: "<html>Bad Gateway</html>" },
        { status: 504, body: {} },
        { status: 200, body: "<html>Welcome</html>" },
        { status: 200, body: [] },
      ], UNAVAILABLE);
      await storedNowhere(stage, {
        apply: down,
        record: down,
        says: "PGRST000",
      });
    },
  },
  {
    row: 58,
    input: "lock or statement timeout, deadlock, too many connections",
    check: async (stage) => {
      await filedByEach(stage, [
        refusal(500, "57014", "canceling statement due to statement timeout"),
        refusal(500, "40P01", "deadlock detected"),
        refusal(503, "53300", "too many connections"),
        refusal(504, "PGRST003", "Timed out acquiring connection"),
        refusal(503, "57P01", "terminating connection"),
        refusal(503, "08006", "connection failure"),
      ], UNAVAILABLE);
      await filedByEach(stage, [
        refusal(500, "55P03", "canceling statement due to lock timeout"),
      ], LOCKED);
      await Promise.all([lockedOut(stage), unanswered(stage)]);
    },
  },
  {
    row: 59,
    input: "missing function or grant",
    check: async (stage) => {
      await filedByEach(stage, [
        refusal(404, "PGRST202", "Could not find the function"),
        refusal(404, "42883", "function does not exist"),
        refusal(403, "42501", "permission denied for function"),
        refusal(401, "PGRST301", "JWSError JWSInvalidSignature"),
      ], FAULT);
      await withoutGrant(stage, "billing_apply_events(jsonb)", FAULT);
    },
  },
  {
    row: 60,
    input: "recording in failed_events fails as well",
    check: async (stage) => {
      const denied = refusal(403, "42501", "permission denied for function f");
      const says = "deployment_fault";
      await storedNowhere(stage, { apply: denied, record: denied, says });
      await storedNowhere(stage, {
        apply: { status: 502, body: "" },
        record: { status: 200, body: "nonsense" },
        says: "database_unavailable",
      });
    },
  },
];

/** Another transaction holds the subscription for longer than a call waits. */
async function lockedOut(stage: Stage): Promise<void> {
  const { sql, stripe } = stage;
  const { receiver } = stripe;
  const event = creation();
  await expectApplied(stage, { receiver, event, send: signed(stripe, event) });
  const id = event.data.object.id;
  const late = update({ subscription: id, created: event.created! + 1 });
  const send = signed(stripe, late);
  await sql.begin(async (holder) => {
    await holder`select from billing.subscriptions where id = ${id} for update`;
    await expectFailure(receiver, { ...LOCKED, send });
  });
  const { ledger, failures } = await storedEvent(sql, late.id);
  assertEquals(ledger, []);
  assertEquals(failures.map((row) => row.error_code), [LOCKED.code]);
  assert(String(failures[0]?.error).includes("55P03"), `${failures[0]?.error}`);
  await expectApplied(stage, { receiver, event: late, send });
}

/** A call that is never answered ends by the receiver's own time limit. */
async function unanswered(stage: Stage): Promise<void> {
  const { sql, behindFaults, faultyApi } = stage;
  const { receiver } = behindFaults;
  const event = creation();
  const send = signed(behindFaults, event);
  faultyApi.fails({ billing_apply_events: "hangs" });
  const started = Date.now();
  await expectFailure(receiver, { ...UNAVAILABLE, send });
  const tookMs = Date.now() - started;
  assert(tookMs < 10_000, `The provider had to wait for ${tookMs} ms`);
  assertEquals(faultyApi.calls("billing_apply_events"), 1, "Called twice");
  const { failures } = await storedEvent(sql, event.id);
  assertEquals(failures.length, 1);
  faultyApi.fails({});
  await expectApplied(stage, { receiver, event, send });
}

/** Delivers while service_role lacks a real grant. */
async function withoutGrant(
  stage: Stage,
  name: string,
  is: Refusal,
): Promise<void> {
  const { sql, stripe } = stage;
  const event = creation();
  const send = signed(stripe, event);
  const { receiver } = stripe;
  await sql.unsafe(
    `revoke execute on function public.${name} from service_role`,
  );
  try {
    const row = await expectFiled(stage, {
      ...is,
      receiver,
      send,
      as: event.id,
    });
    assert(String(row.error).includes("42501"), `${row.error}`);
  } finally {
    await sql.unsafe(
      `grant execute on function public.${name} to service_role`,
    );
  }
  const line = await receiver.logged((line) => line.event_id === event.id);
  assert(String(line.error).includes(name.split("(")[0]!), `${line.error}`);
  assertAnswer(await send(), 200);
}
