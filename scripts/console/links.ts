import type { FailureKey } from "./sql.ts";

/** Returns a URL of the console with these fields. */
export function link(
  path: string,
  fields: Readonly<Record<string, string | undefined>> = {},
): string {
  const given = Object.entries(fields)
    .filter((field): field is [string, string] => field[1] !== undefined);
  const query = new URLSearchParams(given).toString();
  return query === "" ? path : `${path}?${query}`;
}

/** Returns the URL of a failure's page, or of a page below it. */
export function failureLink(
  { provider, eventId }: FailureKey,
  path: "/failure" | "/failure/repair" = "/failure",
): string {
  return link(path, { provider, event: eventId });
}
