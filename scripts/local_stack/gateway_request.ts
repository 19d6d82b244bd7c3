import type { IncomingMessage } from "node:http";
import { isValidToken, type LocalKeys } from "../common/keys.ts";
import { isLoopbackHost } from "../common/loopback.ts";

/** The service that a request is for, and the path under which it sees it. */
export interface Route {
  readonly to: "rest" | "webhook" | "worker";
  readonly path: string;
}

/** What is behind the gateway: the port of each service, and the keys. */
export interface GatewayOptions {
  readonly targets: { readonly [service in Route["to"]]?: number };
  readonly keys: LocalKeys;
}

/** Where a request goes and with which headers; or why it goes nowhere. */
export type Plan =
  | {
    readonly port: number;
    readonly path: string;
    /** Name, value, name, value, ... */
    readonly headers: readonly string[];
  }
  | Refusal;

/** An answer of the gateway's own. */
export interface Refusal {
  readonly status: number;
  readonly message: string;
}

const WRONG_METHOD = {
  status: 405,
  message: "The gateway does not pass this method on",
};
const WRONG_PATH = { status: 404, message: "No service has this path" };
const WRONG_HOST = {
  status: 403,
  message:
    "Only the webhook is served under this name: use 127.0.0.1 or localhost",
};
const WRONG_KEY = { status: 401, message: "The request has no valid apikey" };

// After the prefix comes nothing, a segment or a query.
const PREFIXES = [
  { prefix: "/rest/v1", to: "rest", strip: "/rest/v1" },
  {
    prefix: "/functions/v1/billing-webhook",
    to: "webhook",
    strip: "/functions/v1",
  },
  {
    prefix: "/functions/v1/billing-worker",
    to: "worker",
    strip: "/functions/v1",
  },
  { prefix: "/api/billing/webhook", to: "webhook", strip: "" },
] as const;

/**
 * Decides where a request goes. Its headers stay as they are, in their order,
 * but for those of the connection and, towards the REST API, `Authorization`.
 */
export async function planRequest(
  request: Pick<IncomingMessage, "method" | "url" | "rawHeaders">,
  { targets, keys }: GatewayOptions,
): Promise<Plan> {
  const { method, url = "", rawHeaders } = request;
  if (method === "TRACE") return WRONG_METHOD;
  const route = routeOf(url);
  const port = route && targets[route.to];
  if (!port) return WRONG_PATH;
  // The keys of the local stack are public, so what they give access to is for
  // this machine only: not for a tunnel, nor for a web page whose name resolves
  // to 127.0.0.1 (DNS rebinding). The webhook verifies signatures instead.
  const hosts = headerValues(rawHeaders, "host");
  const isLocal = hosts.length > 0 && hosts.every(isLoopbackHost);
  if (route.to !== "webhook" && !isLocal) return WRONG_HOST;
  const headers = withoutHeaders(rawHeaders, /^(connection|keep-alive)$/);
  if (route.to !== "rest") return { port, path: route.path, headers };
  const authorization = await authorize({
    apikey: headerValues(rawHeaders, "apikey")[0],
    authorization: headerValues(rawHeaders, "authorization")[0],
  }, keys);
  if (!authorization) return WRONG_KEY;
  return {
    port,
    path: route.path,
    headers: withoutHeaders(headers, /^authorization$/)
      .concat("Authorization", authorization),
  };
}

/**
 * Returns raw headers (name, value, name, value, ...) without some of them.
 *
 * @param names matches their names in lower case
 */
export function withoutHeaders(
  headers: readonly string[],
  names: RegExp,
): string[] {
  return headers.filter((_, index) =>
    !names.test(headers[index - index % 2]!.toLowerCase())
  );
}

function headerValues(headers: readonly string[], name: string): string[] {
  return headers.filter((_, index) =>
    index % 2 === 1 && headers[index - 1]!.toLowerCase() === name
  );
}

/**
 * Returns the route of a request's target. The target is cut, never decoded or
 * normalized, so that the service sees what the client wrote.
 *
 * @param target as in the request line (RFC 9112, section 3.2)
 * @returns undefined if no service has that path
 */
export function routeOf(target: string): Route | undefined {
  const full = target.replace(/^https?:\/\/[^/?]*/i, "");
  for (const { prefix, to, strip } of PREFIXES) {
    if (!full.startsWith(prefix)) continue;
    const rest = full.slice(prefix.length);
    if (rest !== "" && rest[0] !== "/" && rest[0] !== "?") continue;
    const path = full.slice(strip.length);
    return { to, path: path.startsWith("/") ? path : `/${path}` };
  }
  return undefined;
}

/**
 * Returns the `Authorization` with which a request is passed on to the REST
 * API, by the rule of Supabase's gateway: `apikey` must be a key, and a key of
 * the new kind is replaced by its role's token, unless the request has a token
 * of its own.
 *
 * @returns undefined if the key is missing or wrong
 */
export async function authorize(
  { apikey, authorization }: {
    readonly apikey?: string | undefined;
    readonly authorization?: string | undefined;
  },
  keys: LocalKeys,
): Promise<string | undefined> {
  const token = apikey && await tokenFor(apikey, keys);
  if (!token) return undefined;
  const isOwnToken = authorization !== undefined &&
    !/^bearer\s+sb_/i.test(authorization);
  return isOwnToken ? authorization : `Bearer ${token}`;
}

async function tokenFor(
  apikey: string,
  keys: LocalKeys,
): Promise<string | undefined> {
  if (apikey === keys.secret) return keys.serviceRole;
  if (apikey === keys.publishable) return keys.anon;
  return await isValidToken(apikey, Date.now() / 1000) ? apikey : undefined;
}
