/** How loud a line is; the platform's log explorer filters by it. */
export type LogLevel = "info" | "warn" | "error";

/** What a line may carry. Never a secret, a signature or a payload. */
export type LogFields = Readonly<
  Record<
    string,
    string | number | boolean | null | undefined | Record<string, number>
  >
>;

/** Writes one line. */
export type Log = (
  level: LogLevel,
  message: string,
  fields?: LogFields,
) => void;

/**
 * Writes one JSON object a line to the console. JSON escapes line breaks, so
 * no value can forge a line of its own.
 */
export function logJson(
  level: LogLevel,
  message: string,
  fields: LogFields = {},
): void {
  console[level](JSON.stringify({ level, message, ...fields }));
}
