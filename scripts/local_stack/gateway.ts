/**
 * The local stack's gateway, built on node:http: `Deno.serve` closes the
 * connection without an answer or an error if a chunk ends in a bare LF; `fetch`
 * adds headers and decodes compressed answers.
 */
import * as http from "node:http";
import type { AddressInfo } from "node:net";
import { pipeline } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import { isValidToken, type LocalKeys } from "./keys.ts";
import { isLoopbackHost } from "../common/loopback.ts";

type Answer = http.ServerResponse<http.IncomingMessage>;

const MESSAGES = {
  401: "The request has no valid apikey",
  403: "Only the webhook is served under this name: use 127.0.0.1 or localhost",
  404: "No service has this path",
  502: "The service ended before it answered",
  503: "The service does not answer: it is starting, or it has ended",
} as const;

// After the prefix comes nothing, a segment or a query.
const PREFIXES = [
  ["/rest/v1", "rest", "/rest/v1"],
  ["/functions/v1/billing-webhook", "webhook", "/functions/v1"],
  ["/functions/v1/billing-worker", "worker", "/functions/v1"],
  ["/api/billing/webhook", "webhook", ""],
] as const;

type ServiceName = typeof PREFIXES[number][1];

/** Headers of tunnels and proxies, which may put this machine's name into Host. */
const FORWARDED =
  /^(forwarded|x-forwarded-for|x-forwarded-host|cf-connecting-ip)$/;

/** RFC 9110, 7.6.1, without Transfer-Encoding: the body is passed on as it is. */
const HOP_BY_HOP =
  /^(connection|keep-alive|proxy-.*|te|trailer|upgrade|expect)$/i;

/** 0 is no limit. */
const LIMITS = {
  keepAliveTimeout: 0,
  headersTimeout: 0,
  requestTimeout: 0,
  maxHeaderSize: 65_536,
};
const CLOSE_WITHIN_MS = 2_000;

/** Passes requests on as Supabase's gateway does. Port 0 stands for any free port. */
export async function startGateway(
  port: number,
  { targets, keys }: {
    targets: Partial<Record<ServiceName, number>>;
    keys: LocalKeys;
  },
) {
  const agent = new http.Agent({ keepAlive: true });

  async function handle(request: http.IncomingMessage, answer: Answer) {
    request.on("error", () => {}); // the client is gone; "close" follows

    const route = routeOf(request.url!);
    const target = route && targets[route.to];
    if (!target) return refuse(answer, 404);

    // The keys of the local stack are public, so no tunnel may use them, and no web
    // page whose name resolves to 127.0.0.1. The webhook verifies signatures.
    if (route.to !== "webhook" && !isLocal(request)) {
      return refuse(answer, 403);
    }

    let headers = endToEnd(request.rawHeaders);
    if (route.to === "rest") {
      const authorization = await authorize(request.headers, keys);
      if (!authorization) return refuse(answer, 401);
      headers = headers.filter(([name]) => !/^authorization$/i.test(name));
      headers.push(["Authorization", authorization]);
    }

    passOn(request, answer, {
      host: "127.0.0.1",
      port: target,
      path: route.path,
      method: request.method,
      headers: headers.flat(),
      setHost: false,
      // After HEAD, PostgREST 12 closes the connection without notice.
      agent: request.method === "HEAD" ? false : agent,
    });
  }

  const server = http.createServer(LIMITS, handle);
  await new Promise<void>((resolve, reject) => {
    server.on("error", reject).listen(port, "127.0.0.1", resolve);
  });

  async function close() {
    const closed = new Promise((resolve) => server.close(resolve));
    server.closeIdleConnections();
    await Promise.race([closed, sleep(CLOSE_WITHIN_MS)]);
    server.closeAllConnections();
    agent.destroy();
  }

  return { port: (server.address() as AddressInfo).port, close };
}

function passOn(
  request: http.IncomingMessage,
  answer: Answer,
  to: http.RequestOptions,
) {
  const upstream = http.request(to);

  upstream.on("response", (from) => {
    const headers = endToEnd(from.rawHeaders).flat();
    answer.writeHead(from.statusCode!, from.statusMessage, headers);
    pipeline(from, answer, () => {});
  });

  upstream.on("error", (error) => {
    request.unpipe(upstream);
    const isRefused = "code" in error && error.code === "ECONNREFUSED";
    if (answer.headersSent) answer.destroy();
    else refuse(answer, isRefused ? 503 : 502);
  });

  // If the service closes a kept connection, Deno sends the request again on
  // another one: without its body, for which the service would wait.
  let connections = 0;
  upstream.on("socket", () => {
    const isSafe = /^(GET|HEAD|OPTIONS)$/.test(to.method!);
    if (++connections > 1 && !isSafe) upstream.destroy(new Error("Closed"));
  });

  answer.on("close", () => {
    // The service answered before it got the whole body, or the client is gone.
    if (!request.complete || !answer.writableFinished) upstream.destroy();
    request.unpipe().resume();
  });

  request.pipe(upstream);
}

/** The target of the request line is cut, but never decoded or normalized. */
export function routeOf(
  target: string,
): { readonly to: ServiceName; readonly path: string } | undefined {
  const full = target.replace(/^https?:\/\/[^/?]*/i, "");
  const found = PREFIXES.find(([prefix]) =>
    full.startsWith(prefix) && /^($|[/?])/.test(full.slice(prefix.length))
  );
  if (!found) return undefined;
  const [, to, strip] = found;
  return { to, path: full.slice(strip.length).replace(/^(?!\/)/, "/") };
}

/**
 * Returns the Authorization header for PostgREST: the request's own token, or else its
 * key, which if it is of the new kind is replaced by its role's token.
 */
async function authorize(
  { apikey, authorization }: http.IncomingHttpHeaders,
  keys: LocalKeys,
): Promise<string | undefined> {
  const key = `${apikey}`;
  const token = new Map([
    [keys.secret, keys.serviceRole],
    [keys.publishable, keys.anon],
  ]).get(key);
  if (!token && !await isValidToken(key)) return undefined;
  const hasToken = authorization && !/^bearer\s+sb_/i.test(authorization);
  return hasToken ? authorization : `Bearer ${token ?? key}`;
}

function isLocal({ headersDistinct }: http.IncomingMessage): boolean {
  const { host: hosts = [], ...others } = headersDistinct;
  return hosts.length > 0 && hosts.every(isLoopbackHost) &&
    !Object.keys(others).some((name) => FORWARDED.test(name));
}

function endToEnd(raw: readonly string[]): [name: string, value: string][] {
  return raw.flatMap((name, i) =>
    i % 2 || HOP_BY_HOP.test(name) ? [] : [[name, raw[i + 1]!]]
  );
}

function refuse(answer: Answer, status: keyof typeof MESSAGES) {
  answer.writeHead(status, {
    "content-type": "application/json",
    ...(status === 503 && { "retry-after": "1" }),
  });
  answer.end(JSON.stringify({ message: MESSAGES[status] }));
  // If unread bytes remain when it closes, the client may lose the answer.
  answer.req.resume();
}
