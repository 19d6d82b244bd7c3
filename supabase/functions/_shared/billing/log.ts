/** The level of a line; the platform's log explorer filters by it. */
export type LogLevel = "info" | "warn" | "error";

/** The fields of a line. Never a secret, a signature or a payload. */
export type LogFields = Readonly<
  Record<
    string,
    string | number | boolean | null | undefined | Record<string, number>
  >
>;

export type Log = (
  level: LogLevel,
  message: string,
  fields?: LogFields,
) => void;

/** Writes a line of JSON, which escapes line breaks: no value can forge a line. */
export const logJson: Log = (level, message, fields = {}) => {
  console[level](JSON.stringify({ level, message, ...fields }));
};
