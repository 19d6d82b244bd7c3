import { isLoopbackHost } from "../common/loopback.ts";
import type { GatewayStatus } from "./gateway_answers.ts";
import { authorize } from "./authorize.ts";
import { type Route, routeOf } from "./gateway_route.ts";
import type { LocalKeys } from "../common/keys.ts";
import { hasHost, headerOf, type RequestHead } from "./request_head.ts";

/** What is behind the gateway: a port each, and the keys that open it. */
export type GatewayOptions = {
  targets: Partial<Record<Route["to"], number>>;
  keys: LocalKeys;
};

/** Where a request goes and how its head reads there; or what it is told. */
export type Plan =
  | { port: number; head: string }
  | { status: GatewayStatus };

/**
 * Decides on a request. Of its head only the target changes, and towards the
 * REST API what a key stands for.
 */
export async function planRequest(
  request: RequestHead,
  { targets, keys }: GatewayOptions,
): Promise<Plan> {
  if (/^(TRACE|CONNECT)$/.test(request.method)) return { status: 405 };
  const route = routeOf(request.target);
  const port = route && targets[route.to];
  if (!port) return { status: 404 };
  let { lines } = request;
  // What the well-known keys open is for this machine: not for a tunnel to the
  // webhook, nor for a page in a browser whose name leads here (DNS rebinding).
  // The webhook has its signature, and takes any name.
  if (route.to !== "webhook" && !hasHost(lines, isLoopbackHost)) {
    return { status: 403 };
  }
  if (route.to === "rest") {
    const granted = await authorize({
      apikey: headerOf(lines, "apikey"),
      authorization: headerOf(lines, "authorization"),
    }, keys);
    if (!granted) return { status: 401 };
    lines = lines.filter((line) => !/^authorization:/i.test(line));
    lines = [...lines, `Authorization: ${granted}`];
  }
  const first = `${request.method} ${route.path} ${request.version}`;
  return { port, head: `${[first, ...lines].join("\r\n")}\r\n\r\n` };
}
