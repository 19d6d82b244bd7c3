import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { limited } from "./hang_limit.ts";
import { setting } from "./test_environment.ts";

export type Fault =
  /** It is made, and the connection breaks before its answer. */
  | "reply lost"
  /** It is never answered. */
  | "hangs"
  /** It is answered like this, and not made. */
  | { readonly status: number; readonly body: unknown };

/** Runs before a call; if it returns a response, the call is not made. */
type Interception = () => Promise<Response | void>;

export async function startApiProxy() {
  const interceptions = new Map<string, Interception>();
  let faults: Readonly<Record<string, Fault>> = {};
  let calls: string[] = [];

  const server = createServer(async (request, response) => {
    const { pathname } = new URL(request.url ?? "", "http://localhost");
    const name = pathname.split("/").pop() ?? "";
    calls.push(name);
    const fault = faults[name];
    if (fault === "hangs") return;

    const interception = interceptions.get(name);
    interceptions.delete(name);
    try {
      const answer = await interception?.() ??
        (typeof fault === "object"
          ? Response.json(fault.body, { status: fault.status })
          : await passOn(request));
      const body = await answer.text();
      if (fault === "reply lost") throw new Error(fault);
      const type = answer.headers.get("content-type") ?? "text/plain";
      response.writeHead(answer.status, { "content-type": type });
      response.end(body);
    } catch {
      // Without an answer, the caller learns of it by its connection.
      request.socket.destroy();
    }
  });
  await new Promise<void>((resolve) =>
    server.listen(0, "127.0.0.1", () => resolve())
  );

  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    /** From now on these calls fail, by function name, and no others do. */
    fails: (changed: Readonly<Record<string, Fault>>) => {
      faults = changed;
      calls = [];
    },
    /** Steps in at the next call of a database function, once. */
    intercept: (name: string, interception: Interception) => {
      interceptions.set(name, interception);
    },
    calls: (wanted: string) => calls.filter((name) => name === wanted).length,
    [Symbol.asyncDispose]: async () => {
      // First, so that no connection is accepted after the others were closed.
      const closed = new Promise((resolve) => server.close(resolve));
      server.closeAllConnections();
      await limited(closed, "the end of the stand-in for the API");
    },
  };
}

async function passOn(request: IncomingMessage): Promise<Response> {
  const chunks = await Array.fromAsync(request);
  const { host: _, connection: __, "content-length": ___, ...headers } = request
    .headers as Record<string, string>;
  const hasBody = !["GET", "HEAD"].includes(request.method ?? "");
  return await fetch(`${setting("TEST_API_URL")}${request.url}`, {
    method: request.method ?? "POST",
    headers,
    body: hasBody ? new Blob(chunks) : null,
  });
}
