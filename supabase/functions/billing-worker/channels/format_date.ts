/**
 * Returns the day of a time, such as `3 May 2026 (UTC)`: in UTC and in English,
 * whatever the settings of the machine.
 *
 * @param time In the time format of PostgREST.
 */
export function formatDate(time: string): string {
  const day = new Intl.DateTimeFormat("en-GB", {
    day: "numeric",
    month: "long",
    year: "numeric",
    timeZone: "UTC",
  }).format(new Date(time));
  return `${day} (UTC)`;
}
