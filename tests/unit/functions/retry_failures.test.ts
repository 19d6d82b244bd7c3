import { assertEquals } from "@std/assert";
import { Buffer } from "node:buffer";
import { describeEvent } from "../../../supabase/functions/_shared/billing/formats/stripe.ts";
import {
  retryFailures,
  type RetryOptions,
} from "../../../supabase/functions/billing-worker/retry_failures.ts";
import { invoiceEvent } from "../../../scripts/events/invoice_event.ts";
import { subscriptionEvent } from "../../../scripts/events/subscription_event.ts";
import { edited } from "../../support/edited.ts";
import { type Answer, codeOf, fakeDatabase, refusal } from "./fixtures.ts";

const LEASE = "00ea7bdb-ac40-475d-b354-f87fe5d7c4c1";
const NOW = Date.parse("2026-11-21T06:00:00Z");
const created = NOW / 1000;
const NOTHING = {
  ...{ claimed: 0, failed: 0, applied: 0 },
  ...{ duplicate: 0, stale: 0, ignored: 0 },
};

/** A failure that was claimed, and the outcome of its event in the database. */
interface Row {
  readonly body: object | string;
  readonly base64?: boolean;
  readonly outcome?: string;
  readonly error_code?: string;
}

/**
 * Retries rows, which are evt_1 and so on, in a database that hands out each
 * batch at one claim.
 */
async function retry(
  batches: Row[][],
  options: Partial<RetryOptions> = {},
  answers: Record<string, Answer> = {},
) {
  const rows = batches.flat();
  const claimed = (row: Row) => {
    const id = `evt_${rows.indexOf(row) + 1}`;
    const text = JSON.stringify({ ...Object(row.body), id });
    const body = typeof row.body === "string" ? row.body : text;
    const body_encoding = row.base64 ? "base64" : "text";
    return { provider: "b", event_id: id, body, body_encoding };
  };
  const queue = batches.map((batch) => batch.map(claimed));
  const settled: Record<string, unknown>[] = [];
  const lines: unknown[][] = [];
  const { database, calls } = fakeDatabase((name, body) => {
    if (answers[name]) return answers[name](name, body);
    if (name.startsWith("claim")) return Response.json(queue.shift() ?? []);
    if (name === "apply_events") {
      const events = body.events as { retry: { event_id: string } }[];
      const outcomes = events.map(({ retry }, i) => {
        const row = rows[Number(retry.event_id.slice("evt_".length)) - 1]!;
        const { error_code, outcome = error_code ? "failed" : "applied" } = row;
        return { place: i + 1, outcome, error_code, error: "says" };
      });
      // As in the database, whose order is another.
      return Response.json(outcomes.reverse());
    }
    settled.push(...body.results as typeof settled);
    return Response.json(1);
  });
  const work = retryFailures({
    leaseId: LEASE,
    database,
    unmappedSubscriptions: "fail",
    oncePerInvoice: false,
    toleranceSeconds: 60,
    log: (...line) => void lines.push(line),
    clock: () => NOW,
    ...options,
  });
  const counts = await work.catch(() => ({ ...NOTHING, claimed: NaN }));
  return { work, counts, calls, settled, lines };
}

const invoice = invoiceEvent({ created });
const ahead = { ...invoice, created: created + 61 };
const invalid = { ...invoice, data: {} };
const type = "customer.subscription.created";
const creation = subscriptionEvent(type, { created });
const orphan = edited(creation, { "data.object.metadata": {} });
const ignoring: Partial<RetryOptions> = { unmappedSubscriptions: "ignore" };
const base64 = (event: object) =>
  Buffer.from(JSON.stringify(event)).toString("base64");
const BYTES = btoa("\x80\x80");

/** An event of a subscription that may be locked, and what the database says. */
function of(subscription: string, error_code: string): Row {
  const type = "customer.subscription.updated";
  const body = subscriptionEvent(type, { created, subscription });
  return { body, error_code };
}

/** Rows, and what is settled of each; undefined if it is left to the next run. */
type Case = [row: Row, settled: string | undefined];
const ROWS: [options: Partial<RetryOptions>, ...cases: Case[]][] = [
  [
    {},
    [{ body: "{" }, "body_not_json"],
    [{ body: "" }, "body_empty"],
    [{ body: invoice, outcome: "duplicate" }, "duplicate"],
    [{ body: { type: "payment_intent.payment_failed" } }, "ignored"],
    [{ body: invoice, error_code: "BW001" }, "subscription_unknown"],
    [{ body: invalid }, "event_invalid"],
    [{ body: invoice, outcome: "stale" }, "stale"],
    [{ body: invoice }, "applied"],
    [{ body: base64({ ...invoice, id: "evt_ü" }), base64: true }, "applied"],
    [{ body: BYTES, base64: true }, "body_not_text"],
    [{ body: "no base64!", base64: true }, "internal_error"],
    [{ body: { ...invoice, created: created + 60 } }, "applied"],
    [{ body: ahead }, "event_invalid"],
    [{ body: orphan, error_code: "BW005" }, "event_invalid"],
  ],
  // Its time has come.
  [{ clock: () => NOW + 1_000 }, [{ body: ahead }, "applied"]],
  // What waits for a locked creation is due again with it.
  [
    ignoring,
    [of("sub_1", "55P03"), undefined],
    [of("sub_1", "BW001"), undefined],
    [of("sub_1", "BW006"), undefined],
    [of("sub_1", "BW002"), "subscription_of_other_provider"],
    [of("sub_2", "BW006"), "creation_pending"],
    [{ body: orphan, error_code: "BW005" }, "ignored"],
    [{ body: base64(orphan), base64: true, error_code: "BW005" }, "ignored"],
    [{ body: edited(orphan, { "data.object.id": 1 }) }, "ignored"],
    [{ body: invalid }, "event_invalid"],
    [{ body: BYTES, base64: true }, "body_not_text"],
  ],
];
Deno.test("retryFailures() settles each row, unless its records are locked", async () => {
  const message =
    "another session has locked the records; the next run tries again";
  for (const [options, ...cases] of ROWS) {
    const rows = cases.map(([row]) => row);
    const { counts, settled, lines } = await retry([rows], options);
    const expected = cases.map(([, result], i) => [`evt_${i + 1}`, result])
      .filter(([, result]) => result !== undefined);
    const stored = settled
      .map((
        { event_id, error_code, outcome },
      ) => [event_id, error_code ?? outcome]);
    assertEquals(stored, expected);
    const sums = { ...NOTHING, claimed: cases.length };
    for (const [, result = "failed"] of cases) {
      sums[result in sums ? result as keyof typeof sums : "failed"]++;
    }
    assertEquals(counts, sums);
    const locked = cases.length - expected.length;
    const line = ["warn", message, { counts: { locked } }];
    assertEquals(lines, locked > 0 ? [line] : []);
  }
});

Deno.test("retryFailures() applies an event as its provider's, and describes its row", async () => {
  const event = subscriptionEvent(type, { account: "acc_1", created });
  const { calls, settled } = await retry([[{ body: event }]]);
  const [applied] = calls[1]![1].events as Record<string, unknown>[];
  assertEquals(applied?.provider, "b");
  assertEquals(applied?.retry, { event_id: "evt_1", lease_id: LEASE });
  assertEquals(calls[0]?.[1], { p_lease_id: LEASE, p_limit: 25 });
  assertEquals(calls[2]?.[1].p_lease_id, LEASE);
  const described = JSON.parse(JSON.stringify(describeEvent(event)));
  assertEquals<unknown>([described.account_id, settled], ["acc_1", [
    { provider: "b", event_id: "evt_1", ...described, outcome: "applied" },
  ]]);
});

Deno.test("retryFailures() goes on until nothing is left, its time is over, or a call fails", async () => {
  assertEquals((await retry([])).counts, NOTHING);
  const batches = () => [1, 2, 3, 4].map(() => [{ body: "{" }]);
  const all = await retry(batches());
  assertEquals([all.counts.claimed, all.calls.length], [4, 9]);
  let timeMs = NOW;
  // Each batch looks at the clock twice: 7 s per batch.
  const slow = await retry(batches(), { clock: () => timeMs += 3_500 });
  assertEquals(slow.counts.claimed, 3);
  const names = ["claim_failed_events", "apply_events", "settle_failed_events"];
  for (const [i, name] of names.entries()) {
    const answers = { [name]: () => refusal("57014") };
    const batches = [[{ body: invoice }]];
    const { work, calls, settled } = await retry(batches, {}, answers);
    assertEquals(await codeOf(work), "database_unavailable");
    assertEquals([calls.length, settled], [i + 1, []]);
  }
});
