import { startNotifiedEndpoint } from "../support/notified_endpoint.ts";
import { connect } from "../support/tables.ts";
import { startWorker } from "../support/worker.ts";
import {
  type OutboxRow,
  outboxRow,
  oweNotifications,
} from "../support/outbox.ts";

/** The outcome of a notification for one kind of answer. */
export interface HostileAnswer {
  readonly answer: string;
  readonly row: OutboxRow;
  readonly arrivals: number;
  /** Seconds to the next attempt, from the end of the turn. */
  readonly waits: number;
}

/** A turn of a worker whose notifications are all answered badly. */
export interface HostileEndpoint {
  readonly seen: Promise<HostileAnswer[]>;
  readonly figures: Promise<
    { tookMs: number; redirected: number; log: string }
  >;
}

/** The time limit of an attempt, and some more. */
const HANGS_FOR_MS = 11_000;

const ANSWERS: Readonly<Record<string, () => Response | Promise<Response>>> = {
  "302": () => redirect(302),
  "307": () => redirect(307),
  "400": () => new Response("", { status: 400 }),
  "401": () => new Response("", { status: 401 }),
  "404": () => new Response("", { status: 404 }),
  "410": () => new Response("", { status: 410 }),
  "429": () => new Response("", { status: 429, headers: retryAfter("3600") }),
  "500": () => new Response("", { status: 500 }),
  "503": () => new Response("", { status: 503, headers: retryAfter("x") }),
  "hangs": () => late(),
};

let elsewhere = "";

/** Starts a worker, and a turn of it that lasts as long as it may. */
export async function startHostileEndpoint(): Promise<
  HostileEndpoint & AsyncDisposable
> {
  await using opened = new AsyncDisposableStack();
  const sql = connect();
  opened.defer(() => sql.end());
  const endpoint = opened.use(startNotifiedEndpoint());
  const other = opened.use(startNotifiedEndpoint());
  elsewhere = other.env.NOTIFICATION_URL ?? "";
  const worker = opened.use(await startWorker(endpoint.env));
  const names = Object.keys(ANSWERS);
  const events = await oweNotifications(sql, { count: names.length });
  endpoint.answerWith(({ eventId }) =>
    ANSWERS[names[events.indexOf(eventId)] ?? ""]?.() ?? new Response("OK")
  );

  const started = Date.now();
  const turn = worker.wake().then(() => Date.now());
  const seen = turn.then((ended) =>
    Promise.all(names.map(async (answer, place) => {
      const event = events[place] ?? "";
      const row = await outboxRow(sql, event);
      const waits = (row.next_attempt_at.getTime() - ended) / 1_000;
      return { answer, row, arrivals: endpoint.about(event).length, waits };
    }))
  );
  const figures = turn.then((ended) => ({
    tookMs: ended - started,
    redirected: other.arrivals.length + other.refused.length,
    log: worker.output(),
  }));
  // The test that awaits them reports an error.
  seen.catch(() => {});
  figures.catch(() => {});
  const owned = opened.move();
  return { seen, figures, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

function redirect(status: number): Response {
  return new Response("", { status, headers: { location: elsewhere } });
}

function retryAfter(value: string): HeadersInit {
  return { "retry-after": value };
}

async function late(): Promise<Response> {
  await new Promise((resolve) => setTimeout(resolve, HANGS_FOR_MS));
  return new Response("OK");
}
