import { setting } from "./test_environment.ts";

/** What happens instead of a call, or before it where it returns nothing. */
export type Interception = () => Promise<Response | void>;

/** The project's API with somebody in between. */
export interface HeldApi extends AsyncDisposable {
  /** Its address, for `SUPABASE_URL`. */
  readonly url: string;
  /** Steps in at the next call of a database function, once. */
  intercept(name: string, interception: Interception): void;
}

/**
 * Passes calls on to the stack's API. A test steps in where something has to
 * happen between two calls of a function that is served.
 */
export function startHeldApi(): HeldApi {
  const interceptions = new Map<string, Interception>();
  const server = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen() {} },
    async (request) => {
      const { pathname, search } = new URL(request.url);
      const body = await request.text();
      const name = pathname.split("/").pop() ?? "";
      const interception = interceptions.get(name);
      interceptions.delete(name);
      const instead = await interception?.();
      if (instead) return instead;
      const { method, headers } = request;
      return await fetch(`${setting("TEST_API_URL")}${pathname}${search}`, {
        method,
        headers,
        ...(body === "" ? {} : { body }),
      });
    },
  );
  return {
    url: `http://127.0.0.1:${server.addr.port}`,
    intercept: (name, interception) => {
      interceptions.set(name, interception);
    },
    [Symbol.asyncDispose]: () => server.shutdown(),
  };
}
