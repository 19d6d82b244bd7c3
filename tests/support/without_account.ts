/** Returns a copy of an event without the account in any metadata. */
export function withoutAccount<T extends object>(event: T): T {
  return JSON.parse(
    JSON.stringify(
      event,
      (name, value) => name === "accountId" ? undefined : value,
    ),
  );
}
