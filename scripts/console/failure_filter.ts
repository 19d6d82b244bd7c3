/** Which failures a page lists, as its URL says. */
export interface FailureFilter {
  readonly state: "open" | "resolved";
  /** Of the errors. */
  readonly code?: string;
  /** Of the events. */
  readonly type?: string;
  /** Last failed at or after this time, in ISO 8601 with a time zone. */
  readonly since?: string;
  /** Last failed before this time. */
  readonly until?: string;
}

/**
 * Reads a filter from the fields of a form or URL. Empty fields and times that
 * are none count as not given.
 */
export function readFailureFilter(
  field: (name: string) => string | undefined,
): FailureFilter {
  const code = field("code")?.trim();
  const type = field("type")?.trim();
  const since = readTime(field("since"));
  const until = readTime(field("until"));
  return {
    state: field("state") === "resolved" ? "resolved" : "open",
    ...(code && { code }),
    ...(type && { type }),
    ...(since && { since }),
    ...(until && { until }),
  };
}

/** Returns the fields from which {@linkcode readFailureFilter} reads a filter. */
export function filterFields(
  { state, ...others }: FailureFilter,
): Readonly<Record<string, string>> {
  return { ...(state === "resolved" && { state }), ...others };
}

/** A browser's field for a time has no time zone: UTC is meant. */
function readTime(text: string | undefined): string | undefined {
  if (!text) return undefined;
  const isLocal = /^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?$/.test(text);
  const timeMs = Date.parse(isLocal ? `${text}Z` : text);
  return Number.isNaN(timeMs) ? undefined : new Date(timeMs).toISOString();
}
