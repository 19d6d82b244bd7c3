/** A copy of an event in which no metadata names an account. */
export function withoutAccount<T extends object>(event: T): T {
  return JSON.parse(
    JSON.stringify(
      event,
      (name, value) => name === "accountId" ? undefined : value,
    ),
  );
}
