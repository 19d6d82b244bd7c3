/**
 * The console in memory, in front of a stand-in for the database's API.
 *
 * @module
 */
import { createConsole, createSession } from "../../../scripts/console/app.tsx";
import { openProject } from "../../../scripts/console/project.ts";

export const HOST = "127.0.0.1:54340";
export const PAGE = "/failure?provider=a&event=evt_1";
export const KEY = { provider: "a", event: "evt_1" };

/** A row of any window, as the API answers it. */
export const ROW = {
  ...{ provider: "a", event_id: "evt_1", id: "7", status: "dead" },
  type: "customer.subscription.created",
  ...{ subscription_id: "sub_1", account_id: null, version: "741" },
  error_code: "event_invalid",
  error: "data.object.metadata.accountId is missing",
  attempts: 1,
  first_failed_at: "2026-11-22T00:00:00+00:00",
  last_failed_at: "2026-11-22T00:00:00+00:00",
  ...{ retry_requested_at: null, retry_lease_id: null, resolved_at: null },
  ...{ resolution: null, resolution_note: null, resolved_by: null },
  ...{ occurred_at: null, created_at: null, next_attempt_at: null },
  ...{ payload: '{"id": "evt_1"}', original: null, payload_encoding: "json" },
};

/** A request that reached the stand-in. */
export interface ApiCall {
  readonly method: string;
  readonly path: string;
  readonly headers: Headers;
  readonly body: string;
  readonly redirect: string;
}

/** Answers SQL functions with a text, and everything else with one row. */
export function answering(text: string, changes: object = {}) {
  return ({ path }: ApiCall) =>
    Response.json(path.includes("/rpc/") ? text : [{ ...ROW, ...changes }], {
      headers: { "content-range": "0-0/1" },
    });
}

/** Opens a console whose database answers as told. */
export function openConsole(
  answer: (call: ApiCall) => Response | Promise<Response> = answering(
    "Retry requested: 1.",
  ),
  projectUrl = "http://127.0.0.1:54321",
) {
  const session = createSession();
  const calls: ApiCall[] = [];
  const access = { projectUrl, secretKey: "sb_secret_of_this_test" };
  const project = openProject(access, {
    fetch: async (input, init) => {
      const request = new Request(input, init);
      const { method, headers, redirect } = request;
      const { pathname, search } = new URL(request.url);
      const body = await request.text();
      const call = { method, path: pathname + search, headers, body, redirect };
      calls.push(call);
      return await answer(call);
    },
  });
  const app = createConsole({ project, session, host: () => HOST });

  /** Sends a request; `headers` replaces what a browser that is let in sends. */
  async function request(path: string, init: RequestInit = {}) {
    const cookie = `billing_console_54340=${session.cookie}`;
    const headers = { host: HOST, cookie, ...init.headers };
    return await app.request(`http://${HOST}${path}`, { ...init, headers });
  }

  /** Returns the text of a page. */
  async function read(path: string): Promise<string> {
    return await (await request(path)).text();
  }

  /** Sends a form as a page of the console does, but for what is given. */
  async function send(
    path: string,
    fields: Record<string, string>,
    { headers = {}, method = "POST" }: {
      headers?: Record<string, string>;
      method?: string;
    } = {},
  ): Promise<Response> {
    const origin = `http://${HOST}`;
    return await request(path, {
      method,
      headers: { origin, "sec-fetch-site": "same-origin", ...headers },
      body: new URLSearchParams({ csrf: session.csrf, ...fields }),
    });
  }

  return { session, calls, request, read, send };
}
