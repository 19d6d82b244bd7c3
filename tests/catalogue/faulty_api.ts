import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { setting } from "../support/test_environment.ts";

/** What becomes of a call to a function of the database. */
export type Fault =
  /** It is made, and the connection breaks before its answer. */
  | "reply lost"
  /** It is never answered. */
  | "hangs"
  /** It is answered so, and not made. */
  | { readonly status: number; readonly body: unknown };

/** The project's API, with faults of a test's choice. */
export interface FaultyApi extends AsyncDisposable {
  /** For `SUPABASE_URL`. */
  readonly url: string;
  /** From now on; what is not named is passed on as it is. */
  fails(faults: Readonly<Record<string, Fault>>): void;
  /** How often a function was called since then. */
  calls(name: string): number;
}

/** Puts a proxy in front of the project's API. */
export async function startFaultyApi(): Promise<FaultyApi> {
  let faults: Readonly<Record<string, Fault>> = {};
  let calls: string[] = [];

  const server = createServer(async (request, response) => {
    const name = new URL(request.url ?? "", "http://localhost").pathname
      .split("/").pop() ?? "";
    calls.push(name);
    const fault = faults[name];
    if (fault === "hangs") return;
    const answer = typeof fault === "object"
      ? Response.json(fault.body, { status: fault.status })
      : await passOn(request);
    const body = await answer.text();
    if (fault === "reply lost") {
      request.socket.destroy();
      return;
    }
    const type = answer.headers.get("content-type") ?? "text/plain";
    response.writeHead(answer.status, { "content-type": type });
    response.end(body);
  });
  await new Promise<void>((resolve) =>
    server.listen(0, "127.0.0.1", () => resolve())
  );

  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    fails: (changed) => {
      faults = changed;
      calls = [];
    },
    calls: (wanted) => calls.filter((name) => name === wanted).length,
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

async function passOn(request: IncomingMessage): Promise<Response> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of request) chunks.push(chunk);
  const { host: _, connection: __, "content-length": ___, ...headers } = request
    .headers as Record<string, string>;
  return await fetch(`${setting("TEST_API_URL")}${request.url}`, {
    method: request.method ?? "POST",
    headers,
    body: new Blob(chunks as Uint8Array<ArrayBuffer>[]),
  });
}
