const SUCCESSES = ["applied", "duplicate", "stale", "ignored"] as const;

/** What a delivery came to. */
export type Outcome = typeof SUCCESSES[number] | "failed";

/** A log line about one delivery. What is not known is undefined. */
export interface Delivery {
  readonly kind: "delivery";
  readonly status: number;
  readonly outcome: Outcome;
  readonly type: string | undefined;
  readonly subscription: string | undefined;
  readonly event: string | undefined;
  readonly provider: string | undefined;
  readonly durationMs: number;
  /** Of a failure: its code, and the message for operators. */
  readonly code: string | undefined;
  readonly error: string | undefined;
  /** Of a success that somebody should look at, such as a thin event. */
  readonly warning: string | undefined;
}

/** A log line that stands for many deliveries. */
export interface Summary {
  readonly kind: "summary";
  /** By outcome. */
  readonly counts: Readonly<Record<string, number>>;
}

/** Any other line. */
export interface Note {
  readonly kind: "note";
  /** Whose line it is, or how urgent: one word. */
  readonly word: string;
  readonly text: string;
  readonly isFailure: boolean;
}

/** What a line of the functions' output says. */
export type Entry = Delivery | Summary | Note;

type Json = Readonly<Record<string, unknown>>;

/**
 * Reads a line that a function has printed.
 *
 * @param source The part of the stack that printed it: webhook, worker or
 * notification.
 */
export function readLogLine(line: string, source: string): Entry {
  const json = parseObject(line);
  if (json === undefined) return noteOf(line, source);
  const outcomes = countsOf(json["outcomes"]);
  if (typeof json["lines"] === "number" && source === "webhook") {
    return { kind: "summary", counts: outcomes };
  }
  const durationMs = json["duration_ms"];
  if (typeof durationMs !== "number") return noteOfJson(json, source);
  const status = typeof json["status"] === "number" ? json["status"] : 200;
  return {
    kind: "delivery",
    status,
    outcome: SUCCESSES.find((one) => one in outcomes) ?? "failed",
    type: textOf(json["type"]),
    subscription: textOf(json["subscription_id"]),
    event: textOf(json["event_id"]),
    provider: textOf(json["provider"]),
    durationMs,
    code: textOf(json["code"]),
    error: textOf(json["error"]),
    warning: json["level"] === "warn" && status === 200
      ? textOf(json["message"])
      : undefined,
  };
}

function noteOf(line: string, source: string): Note {
  const [, alert] = /^alert: (.*)/.exec(line) ?? [];
  if (alert !== undefined) {
    return { kind: "note", word: "alert", text: alert, isFailure: true };
  }
  const [, notified] = /^verified: (.*)/.exec(line) ?? [];
  const word = notified === undefined ? source : "notified";
  return { kind: "note", word, text: notified ?? line, isFailure: false };
}

function noteOfJson(json: Json, source: string): Note {
  const counts = Object.entries(countsOf(json["counts"]))
    .filter(([name]) => name !== "claimed")
    .map(([name, count]) => `${count} ${name}`).join(", ");
  const text = [json["message"], counts, json["error"]]
    .map(textOf).filter((part) => part !== undefined).join(": ");
  const isFailure = json["level"] !== "info";
  return { kind: "note", word: source, text, isFailure };
}

function parseObject(line: string): Json | undefined {
  if (!line.startsWith("{")) return undefined;
  try {
    return JSON.parse(line);
  } catch {
    return undefined;
  }
}

function countsOf(value: unknown): Record<string, number> {
  if (typeof value !== "object" || value === null) return {};
  return Object.fromEntries(
    Object.entries(value).filter(([, count]) =>
      typeof count === "number" && count > 0
    ),
  );
}

function textOf(value: unknown): string | undefined {
  return typeof value === "string" && value !== "" ? value : undefined;
}
