import type { RequestTools } from "../common/send_request.ts";
import { type Check, failed, ok } from "./check.ts";
import { readApi } from "./read_api.ts";

/** A row of billing_notifications that is still to be sent. */
interface Pending {
  /** Counted before sending. A refusal with 429 is not counted. */
  readonly attempts: number;
  readonly created_at: string;
  readonly next_attempt_at: string;
  readonly last_error: string;
}

interface Health {
  readonly notifications_given_up: number;
}

/** As many are read. */
const MOST = 100;

/** A limit per second or minute passes sooner; a quota does not. */
const LIMITED_MS = 60 * 60 * 1000;

const SHORT_ERROR = 160;

/**
 * Checks that no notification was given up or keeps failing, of which no alert
 * tells. One failed attempt is no fault: the next is made after seconds.
 */
export async function checkNotifications(
  projectUrl: string,
  { secretKey, tools }: { secretKey: string; tools: RequestTools },
): Promise<Check> {
  const access = { secretKey, tools };
  const health = await readApi<Health>(
    `${projectUrl}/rest/v1/billing_health`,
    access,
  );
  if ("refusal" in health) return health.refusal;
  const pending = await readApi<Pending>(
    `${projectUrl}/rest/v1/billing_notifications?${WITH_ERROR}`,
    access,
  );
  if ("refusal" in pending) return pending.refusal;

  const nowMs = tools.clock();
  const givenUp = health.rows[0]?.notifications_given_up ?? 0;
  const waiting = pending.rows.filter((row) =>
    failures(row, nowMs) > 0 || isHeldBack(row, nowMs)
  );
  const texts = [
    givenUp === 0 ? "none was given up" : `given up: ${givenUp}`,
    ...(waiting.length === 0 ? [] : [waitingText(waiting)]),
  ];
  const isFailing = waiting.some((row) =>
    failures(row, nowMs) > 1 ||
    isHeldBack(row, nowMs) && Date.parse(row.created_at) < nowMs - LIMITED_MS
  );
  if (givenUp > 0) {
    return failed(
      texts.join("; "),
      "select * from billing.notifications where status in ('dead', 'undeliverable'); docs/runbook.md says how to send them again",
    );
  }
  return isFailing
    ? failed(
      texts.at(-1)!,
      'Fix what the error names. They are sent at the next attempt, which may be hours away, or at once: docs/runbook.md, "Notifications that do not arrive"',
    )
    : ok(texts.join("; "));
}

const WITH_ERROR = new URLSearchParams({
  select: "attempts,created_at,next_attempt_at,last_error",
  status: "eq.pending",
  last_error: "not.is.null",
  order: "created_at.desc",
  limit: `${MOST}`,
});

/** How often it failed. If it is due, its last attempt may be under way. */
function failures(row: Pending, nowMs: number): number {
  return row.attempts - (isHeldBack(row, nowMs) ? 0 : 1);
}

/** Not due yet: after a failed attempt, or a refusal with 429. */
function isHeldBack({ next_attempt_at }: Pending, nowMs: number): boolean {
  return Date.parse(next_attempt_at) > nowMs;
}

function waitingText(rows: readonly Pending[]): string {
  const count = rows.length === MOST ? `${MOST} or more` : `${rows.length}`;
  const error = Array.from(rows[0]?.last_error.replace(/\.$/, "") ?? "");
  const short = error.length > SHORT_ERROR
    ? `${error.slice(0, SHORT_ERROR).join("")}…`
    : error.join("");
  return `${count} ${
    rows.length === 1 ? "waits" : "wait"
  } after failed attempts, with the error: ${short}`;
}
