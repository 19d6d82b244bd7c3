import { assert, assertEquals, assertMatch } from "@std/assert";
import { Buffer } from "node:buffer";
import type { Sql } from "postgres";
import { eventually } from "../support/hang_limit.ts";
import type { Fault } from "../support/api_proxy.ts";
import { onTheWire, type RawRequest, rawRequest } from "./raw_request.ts";
import { type Answer, post } from "../support/send.ts";
import { rowCounts, type StoredEvent, storedEvent } from "../support/tables.ts";
import {
  type Body,
  creation,
  type Endpoint,
  type EndpointName,
  hashId,
  headersOf,
  PAYLOAD_MARK,
  SECRETS,
  signatureOf,
  type SignatureParts,
  type Stage,
  unixNow,
} from "./stage.ts";

export interface Outcome {
  /** Several, if the server may answer instead of the receiver. */
  readonly status: number | readonly number[];
  readonly code?: string;
  readonly stored: "nothing" | "ledger" | "failed_events";
}

/** What is sent, by default a signed creation of provider A, and what comes of it. */
export interface Sent extends Partial<Outcome> {
  readonly to?: EndpointName | Endpoint;
  readonly through?: "gateway";
  readonly method?: string;
  readonly body?: Body | object;
  readonly isChunked?: boolean;

  readonly time?: string;
  /** Seconds since the time that is signed. */
  readonly age?: number;
  readonly id?: string;
  /** Makes the signature's header; `headers` makes all. */
  readonly value?: (parts: SignatureParts) => string;
  readonly headers?: (parts: SignatureParts) => Record<string, string>;
  /** Makes a request that no client would send. */
  readonly raw?: (request: RawRequest) => RawRequest;

  /** The event that the body stands for, if it is not its JSON. */
  readonly event?: { readonly id: string; readonly data?: unknown };
  /** Whether it is filed under the body's hash instead of the event's ID. */
  readonly isHashed?: boolean;
  /** How `failed_events` keeps the body, by default as JSON. */
  readonly kept?: "json" | "text" | "base64";
  /** A part of the error that is stored, and of the one in the log. */
  readonly says?: string | undefined;
  readonly logs?: string;
  readonly outcome?: string;
  readonly isDuplicate?: boolean;
  readonly faults?: Readonly<Record<string, Fault>>;
  readonly resolution?: string;
  readonly record?: Readonly<Record<string, unknown>>;
  readonly notifies?: string;
}

/** A row of the catalogue. What it says holds for each delivery of `sent`. */
export interface Row extends Sent {
  readonly sent?: readonly Sent[];
  readonly check?: (stage: Stage) => Promise<void>;
  /** Begins a check of ten seconds before all other rows; its result ends the check. */
  readonly begin?: (stage: Stage) => Promise<() => Promise<void>>;
}

export const refused = (status: number, code: string): Outcome => ({
  status,
  code,
  stored: "nothing",
});
export const filed = (status: number, code: string): Outcome => ({
  status,
  code,
  stored: "failed_events",
});

export const APPLIED = { status: 200, stored: "ledger" } as const;
export const IGNORED = { status: 200, stored: "nothing" } as const;
export const INVALID = filed(422, "event_invalid");
export const NOT_APPLIED = filed(500, "subscription_unknown");

export type Rows = Readonly<Record<string, Row>>;

/** The whole reply for each status, and for codes that share one with others. */
const BODIES: Readonly<Record<number | string, string>> = {
  200: "OK",
  401: "Invalid signature",
  422: "Event is not valid",
  500: "Event could not be applied",
  503: "Try again later",
  body_empty: "Body is empty",
  body_not_json: "Body is not valid JSON",
  body_not_text: "Body is not valid UTF-8",
  provider_misconfigured: "Receiver is not configured",
};

export async function checkRow(stage: Stage, row: Row): Promise<void> {
  assert(row.sent || row.check, "It does nothing");
  for (const sent of row.sent ?? []) await deliver(stage, { ...row, ...sent });
  await row.check?.(stage);
}

export function prepare(stage: Stage, sent: Sent) {
  const { to = "stripe", through, method = "POST", isChunked, raw } = sent;
  const endpoint = typeof to === "string" ? stage[to] : to;
  const url = through === "gateway" ? stage.gatewayUrl : endpoint.receiver.url;
  const { body: content = creation() } = sent;
  const isBody = typeof content === "string" || content instanceof Uint8Array;
  const body = isBody ? content as Body : JSON.stringify(content);
  const event = sent.event ?? (isBody ? undefined : content as Sent["event"]);
  const hasBody = !["GET", "HEAD", "OPTIONS"].includes(method);

  async function send(signal: AbortSignal | null = null): Promise<Answer> {
    const { time = String(unixNow() - (sent.age ?? 0)), id } = sent;
    const parts = signatureOf(endpoint, body, { time, id });
    const headers = sent.headers?.(parts) ??
      headersOf(endpoint, parts, sent.value?.(parts));
    if (raw) {
      const answer = await rawRequest(url, raw(onTheWire(url, headers, body)));
      assert(answer, "The server closed without an answer");
      return answer;
    }

    const stream = isChunked ? new Blob([body]).stream() : body;
    const init = { method, headers, body: hasBody ? stream : null, signal };
    return await post(url, init);
  }
  return { endpoint, body, event, send };
}

export async function deliver(stage: Stage, sent: Sent): Promise<StoredEvent> {
  const { sql } = stage;
  const { status, code = "", stored, outcome = "applied" } = sent;
  if (status === undefined || !stored) throw new TypeError("It has no outcome");
  const { endpoint, body, event, send } = prepare(stage, sent);
  const before = await rowCounts(sql);

  if (sent.faults) stage.faultyApi.fails(sent.faults);
  const line = await checkAnswer(endpoint, { send, status, code });
  if (sent.faults) stage.faultyApi.fails({});
  const { event_id, body_sha256, error } = line;
  assert(`${error}`.includes(sent.logs ?? ""), `${sent.logs}: ${error}`);
  if (code === "failure_not_recorded") {
    const hash = `sha256:${body_sha256}`;
    assertEquals([event_id, hash], [event?.id, hashId(body)]);
  }

  const added = stored === "failed_events" ? 1 : 0;
  if (stored !== "ledger" || sent.isDuplicate) {
    const failed_events = before["failed_events"]! + added;
    assertEquals(await rowCounts(sql), { ...before, failed_events });
  }

  const id = sent.isHashed ? undefined : event?.id;
  const key = typeof id === "string" ? id : hashId(body);
  const rows = await storedEvent(sql, key);
  const { ledger, failures, notifications } = rows;
  if (stored === "ledger") {
    assertEquals(ledger.map((row) => row.outcome), [outcome]);
    assertEquals(failures.filter((row) => !row.resolved_at), []);
  }
  if (added > 0) await checkFiled(sql, rows, { sent, code, body });
  if (sent.resolution) {
    assertEquals(failures.map((row) => row.resolution), [sent.resolution]);
  }
  if (sent.notifies) {
    assertEquals(notifications.map((row) => row.account_id), [sent.notifies]);
  }
  if (sent.record) {
    const columns = Object.keys(sent.record);
    const record = await recordOf(stage, subscriptionOf(event), columns);
    assertEquals(record, sent.record);
  }

  return rows;
}

async function checkAnswer(
  { receiver }: Endpoint,
  { send, status, code }: {
    send: () => Promise<Answer>;
    status: number | readonly number[];
    code: string;
  },
): Promise<Record<string, unknown>> {
  const start = receiver.output().length;
  const linesBefore = receiver.log.length;
  const answer = await send();
  if (typeof status === "object") {
    assert(status.includes(answer.status), `${answer.status}`);
    assertEquals(answer.body, "");
    return {};
  }
  assertAnswer(answer, status, code);

  const failures = () =>
    receiver.log.slice(linesBefore)
      .filter(({ message }) => message === "delivery failed");
  if (status >= 400) await eventually(() => failures().length > 0);

  const written = receiver.output().slice(start);
  assertEquals(
    failures().map((line) => [line["code"], line["status"]]),
    status < 400 ? [] : [[code, status]],
    written,
  );
  assertDiscreet(written);
  return failures()[0] ?? {};
}

export function assertAnswer(answer: Answer, status: number, code = ""): void {
  assertEquals(answer.status, status, answer.body);
  assertEquals(answer.body, BODIES[code] ?? BODIES[status] ?? "");
  if (status === 405) assertEquals(answer.headers.get("allow"), "POST");
  if (status === 503) {
    assertMatch(answer.headers.get("retry-after") ?? "none", /^[1-9]\d*$/);
  }
}

async function checkFiled(
  sql: Sql,
  { ledger, failures, notifications }: StoredEvent,
  { sent, code, body }: { sent: Sent; code: string; body: Body },
): Promise<void> {
  assertEquals([ledger, notifications], [[], []]);
  const { kept = "json", says = "" } = sent;
  assertEquals(failures.length, 1);
  const [row = {}] = failures;
  const { payload, error, error_code, payload_encoding, attempts } = row;
  assertEquals([error_code, payload_encoding, attempts], [code, kept, 1]);
  assert(String(error).includes(says), `${says}: ${error}`);

  const text = typeof body === "string"
    ? body.replace(/^\ufeff/, "")
    : Buffer.from(body).toString(kept === "base64" ? kept : "utf8");
  // In SQL, which keeps the numbers that JavaScript rounds.
  const [{ is_same = payload === text } = {}] = kept !== "json"
    ? []
    : await sql`
    select payload = ${text}::text::jsonb as is_same
    from billing.failed_events where event_id = ${row["event_id"] as string}`;
  assert(is_same, `kept as ${String(payload).slice(0, 200)}`);
}

function subscriptionOf(event: { data?: unknown } | undefined): string {
  const { object: { object, id, subscription = "" } } = event?.data as {
    object: { object: string; id: string; subscription?: string };
  };
  return object === "invoice" ? subscription : id;
}

export async function recordOf(
  { sql }: Stage,
  id: string,
  columns: readonly string[] = ["status", "plan_id"],
): Promise<Record<string, unknown>> {
  const [row] = await sql`
    select ${sql(columns as string[])} from billing.subscriptions
    where id = ${id}`;
  return { ...row };
}

export function assertDiscreet(output: string): void {
  const tail = output.split("\n").slice(-12).join("\n");
  const secrets = Object.values(SECRETS);
  const parts = secrets.map((secret) => secret.replace("whsec_", ""));
  for (const secret of [PAYLOAD_MARK, ...secrets, ...parts, "sb_secret"]) {
    assert(!output.includes(secret), `${secret} is in the log:\n${tail}`);
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
      /"message":"forged"/, // a line that an event brought
    ]
  ) {
    const found = pattern.exec(rest);
    assert(found === null, `${found?.[0]} is in the log:\n${tail}`);
  }
}
