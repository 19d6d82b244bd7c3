/**
 * The console in memory, in front of a stand-in for the database's API.
 *
 * @module
 */
import { createConsole } from "../../../scripts/console/app.ts";
import { openProject } from "../../../scripts/console/project.ts";
import { createSession } from "../../../scripts/console/session.ts";

export const HOST = "127.0.0.1:54340";
const PROJECT_URL = "http://127.0.0.1:54321";

/** A failure as the API answers it. */
export const FAILURE = {
  provider: "a",
  event_id: "evt_1",
  type: "customer.subscription.created",
  subscription_id: "sub_1",
  account_id: null,
  error_code: "event_invalid",
  error: "data.object.metadata.accountId is missing",
  attempts: 1,
  first_failed_at: "2026-11-22T00:00:00+00:00",
  last_failed_at: "2026-11-22T00:00:00+00:00",
  retry_requested_at: null,
  retry_lease_id: null,
  resolved_at: null,
  resolution: null,
  payload_encoding: "json",
  resolution_note: null,
  resolved_by: null,
  occurred_at: null,
  payload: '{"id": "evt_1"}',
  original: null,
  version: "741",
};

/** A request that reached the stand-in. */
export interface ApiCall {
  readonly method: string;
  readonly path: string;
  readonly headers: Headers;
  readonly body: string;
}

/** Opens a console whose database answers as told: by default with one failure. */
export function openConsole(
  answer: (call: ApiCall) => Response = () => Response.json([FAILURE]),
  projectUrl = PROJECT_URL,
) {
  const session = createSession();
  const calls: ApiCall[] = [];
  /** What each request says about redirects. */
  const redirects: string[] = [];
  const app = createConsole({
    project: openProject(
      { projectUrl, secretKey: "sb_secret_of_this_test" },
      {
        fetch: async (input, init) => {
          const request = new Request(input, init);
          const { pathname, search } = new URL(request.url);
          const call = {
            method: request.method,
            path: pathname + search,
            headers: request.headers,
            body: await request.text(),
          };
          calls.push(call);
          redirects.push(request.redirect);
          return answer(call);
        },
      },
    ),
    session,
    runbook: new Map([["event_invalid", { means: "bad", todo: "repair" }]]),
    style: "body {}",
    host: () => HOST,
    clock: Date.now,
  });

  /** Sends a request; `headers` replaces what a browser that is let in sends. */
  async function request(
    path: string,
    { headers = {}, ...init }: RequestInit = {},
  ): Promise<Response> {
    return await app.request(`http://${HOST}${path}`, {
      ...init,
      headers: {
        host: HOST,
        cookie: `billing_console_54340=${session.cookie}`,
        ...headers,
      },
    });
  }

  /** Sends a form as a page of the console does. */
  async function send(
    path: string,
    fields: Record<string, string>,
    headers: Record<string, string> = {},
  ): Promise<Response> {
    return await request(path, {
      method: "POST",
      headers: {
        origin: `http://${HOST}`,
        "sec-fetch-site": "same-origin",
        "content-type": "application/x-www-form-urlencoded",
        ...headers,
      },
      body: new URLSearchParams({ csrf: session.csrf, ...fields }).toString(),
    });
  }

  return { app, session, calls, redirects, request, send };
}
