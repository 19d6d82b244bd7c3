import type { Log } from "../log.ts";

/** How many migrations there are, as in `billing.schema_version()`. */
export const SCHEMA_VERSION = 1;

/** Returns a `fetch` that logs if the database's answers state another version. */
export function watchVersion(
  { fetch, log }: { fetch: typeof globalThis.fetch; log: Log },
): typeof globalThis.fetch {
  let known = SCHEMA_VERSION;

  return async function watched(input, init) {
    const response = await fetch(input, init);
    const stated = response.headers.get("billing-schema-version");
    const version = Number(stated ?? known);
    if (version === known) return response;

    known = version;
    if (version < SCHEMA_VERSION) {
      log(
        "error",
        "this function is newer than the database: supabase db push --remote",
      );
    } else if (version > SCHEMA_VERSION) {
      log(
        "warn",
        "this function is older than the database: deploy both functions again",
      );
    }
    return response;
  };
}
