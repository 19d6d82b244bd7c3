import { nextStep } from "../common/next_step.ts";

export type LogFields = Readonly<Record<string, unknown>>;

/** Returns the fields of a line; none if it is not JSON. */
export function parseLine(line: string): LogFields {
  try {
    return line.startsWith("{") ? JSON.parse(line) : {};
  } catch {
    return {};
  }
}

/** Returns the numbers above 0 of a field. */
export function countsOf(value: unknown): Readonly<Record<string, number>> {
  return Object.fromEntries(
    Object.entries(value ?? {}).filter(([, count]) => count > 0),
  );
}

/** Returns whose line it is, or how urgent, and what it says. */
export function noteOf(line: string, source: string) {
  const fields = parseLine(line);
  if (fields["message"] === undefined) {
    const [, kind, text] = /^(alert|verified): (.*)/.exec(line) ?? [];
    const word = kind === "verified" ? "notified" : kind ?? source;
    return { word, text: text ?? line, isFailure: kind === "alert" };
  }
  const counts = Object.entries(countsOf(fields["counts"]))
    .filter(([name]) => name !== "claimed")
    .map(([name, count]) => `${count} ${name}`).join(", ");
  const text = [fields["message"], counts, fields["error"]].filter(Boolean)
    .join(": ");
  return { word: source, text, isFailure: fields["level"] !== "info" };
}

/** Returns what failed in a delivery, and what to do about it. */
export function failureText(
  { code, error = "", provider = "a" }: LogFields,
): string {
  // The API does not know what the functions call. No restart brings anything
  // else back, such as a table that a trigger of the app uses.
  const lacksMigration = code === "deployment_fault" &&
    /PGRST20\d/.test(`${error}`);
  const step = lacksMigration
    ? "a restart of start applies the migration"
    : nextStep(`${code}`, `${provider}`) ?? `${error}`.replace(
      /^(?:Cannot verify deliveries of provider \w+|Database call failed): /,
      "",
    );
  return `${code}: ${step}`;
}
