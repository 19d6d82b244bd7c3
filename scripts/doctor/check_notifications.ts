import type { RequestTools } from "../common/send_request.ts";
import { type Check, failed, ok } from "./check.ts";
import { readApi } from "./read_api.ts";

/** A row of public.notifications that is still to be sent. */
interface Pending {
  /** Counted before sending: with a lease, the last one is under way. */
  readonly attempts: number;
  readonly lease_id: string | null;
  readonly limited_since: string | null;
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
 * Checks that no notification or alert was given up or keeps failing, of which
 * no alert tells. One failed attempt is no fault: the next is made after
 * seconds.
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
    `${projectUrl}/rest/v1/notifications?${WITH_ERROR}`,
    access,
  );
  if ("refusal" in pending) return pending.refusal;

  const givenUp = health.rows[0]?.notifications_given_up ?? 0;
  const waiting = pending.rows.filter((row) =>
    failures(row) > 0 || row.limited_since !== null
  );
  const texts = [
    givenUp === 0 ? "none was given up" : `given up: ${givenUp}`,
    ...(waiting.length === 0 ? [] : [waitingText(waiting)]),
  ];
  const isFailing = waiting.some((row) =>
    failures(row) > 1 || isLimited(row, tools.clock())
  );
  if (givenUp > 0) {
    return failed(
      texts.join("; "),
      "select * from public.notifications where status in ('dead', 'undeliverable'); docs/runbook.md says how to send them again",
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
  select: "attempts,lease_id,limited_since,last_error",
  status: "eq.pending",
  last_error: "not.is.null",
  order: "created_at.desc",
  limit: `${MOST}`,
});

function failures({ attempts, lease_id }: Pending): number {
  return attempts - (lease_id === null ? 0 : 1);
}

function isLimited({ limited_since }: Pending, nowMs: number): boolean {
  return limited_since !== null &&
    Date.parse(limited_since) < nowMs - LIMITED_MS;
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
