import type { LocalKeys } from "../common/keys.ts";
import { isLoopbackHost } from "../common/loopback.ts";
import { encodeLatin1 } from "./bytes.ts";
import { authorize } from "./gateway_authorization.ts";
import { headerValues, type RequestHead } from "./http_request.ts";

/** The service that a request is for, and the path under which it sees it. */
export interface Route {
  readonly to: "rest" | "webhook" | "worker";
  readonly path: string;
}

/** What is behind the gateway: the port of each service, and the keys. */
export interface GatewayOptions {
  /** Read for each request: functions move when their code changes. */
  readonly targets: { readonly [service in Route["to"]]?: number };
  readonly keys: LocalKeys;
}

/** Where a request goes and with which head; or the gateway's own answer. */
export type RequestPlan =
  | { readonly port: number; readonly head: Uint8Array }
  | { readonly status: GatewayStatus };

/** The statuses that the gateway itself answers with. */
export type GatewayStatus = keyof typeof ANSWERS;

const ANSWERS = {
  400: ["Bad Request", "The request is malformed"],
  401: ["Unauthorized", "The request has no valid apikey"],
  403: [
    "Forbidden",
    "Only the webhook is served under this name: use 127.0.0.1 or localhost",
  ],
  404: ["Not Found", "No service has this path"],
  405: ["Method Not Allowed", "The gateway does not pass this method on"],
  502: ["Bad Gateway", "The service does not answer"],
} as const;

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

/** Headers of tunnels and proxies, which may put this machine's name into Host. */
const FORWARDED = [
  "forwarded",
  "x-forwarded-for",
  "x-forwarded-host",
  "cf-connecting-ip",
];

/**
 * Decides where a request goes. Its head stays as it is, but for the target
 * and, towards the REST API, `Authorization`.
 */
export async function planRequest(
  { method, target, version, lines }: RequestHead,
  { targets, keys }: GatewayOptions,
): Promise<RequestPlan> {
  if (/^(TRACE|CONNECT)$/.test(method)) return { status: 405 };
  const route = routeOf(target);
  const port = route && targets[route.to];
  if (!port) return { status: 404 };
  // The keys of the local stack are public, so what they give access to is for
  // this machine only: not for a tunnel, nor for a web page whose name resolves
  // to 127.0.0.1 (DNS rebinding). The webhook verifies signatures instead.
  const hosts = headerValues(lines, "host");
  const isLocal = hosts.length > 0 && hosts.every(isLoopbackHost) &&
    !FORWARDED.some((name) => headerValues(lines, name).length > 0);
  if (route.to !== "webhook" && !isLocal) return { status: 403 };
  let sent = lines;
  if (route.to === "rest") {
    const authorization = await authorize({
      apikey: headerValues(lines, "apikey")[0],
      authorization: headerValues(lines, "authorization")[0],
    }, keys);
    if (!authorization) return { status: 401 };
    sent = lines.filter((line) => !/^authorization:/i.test(line))
      .concat(`Authorization: ${authorization}`);
  }
  const head = [`${method} ${route.path} ${version}`, ...sent, "", ""];
  return { port, head: encodeLatin1(head.join("\r\n")) };
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

/** Returns an answer of the gateway's own, after which it closes. */
export function gatewayAnswer(status: GatewayStatus): Uint8Array {
  const [reason, message] = ANSWERS[status];
  const body = JSON.stringify({ message });
  return encodeLatin1([
    `HTTP/1.1 ${status} ${reason}`,
    "Content-Type: application/json",
    `Content-Length: ${body.length}`,
    "Connection: close",
    "",
    body,
  ].join("\r\n"));
}
