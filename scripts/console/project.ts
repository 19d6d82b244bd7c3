/** The project that the console shows: its database, and its worker. */
import type { Database } from "../../supabase/functions/_shared/billing/database/database.types.ts";
import { asTyped } from "../common/environment.ts";
import * as api from "../common/project_api.ts";

type TrialResult =
  Database["public"]["Functions"]["billing_try_event"]["Returns"][number];

interface AccountAnswer {
  readonly access: boolean;
  readonly access_until: string | null;
  /** How many give access, grants included; null if there never was one. */
  readonly subscriptions: number | null;
  readonly paused: boolean | null;
  readonly features: Readonly<Record<string, number | null>>;
}

export type Project = ReturnType<typeof openProject>;

export function openProject(
  access: api.ProjectAccess,
  tools: api.RequestTools = {},
) {
  const { rest, read, call } = api.openApi(access, {
    ...tools,
    timeoutMs: 10_000,
  });
  const { projectUrl: url, secretKey } = access;

  /** Waits only a few seconds for a run to end, because a page waits for it. */
  const wake = (queue: string) => {
    const init = { method: "POST", headers: api.restHeaders(secretKey) };
    const target = `${url}/functions/v1/billing-worker?queue=${queue}`;
    return api.sendRequest(target, init, { ...tools, timeoutMs: 8_000 });
  };

  return {
    url,
    read,

    /**
     * Reads rows, and counts all that match. It does not use HEAD: PostgREST 12
     * then closes the connection unannounced, and the next request fails.
     */
    count<Name extends keyof api.Views>(name: Name, query: api.Query) {
      const prefer = "count=exact";
      return rest<api.Row<Name>[]>("GET", name, { query, prefer });
    },

    call: (name: string, args: object) => call<string>(name, args),

    /** As apps ask, with the default grace. */
    account: (account_id: string) =>
      call<AccountAnswer>("account", { account_id }),

    /** Returns the result that an event would have. */
    tryEvent: async (event: object) =>
      (await call<[TrialResult]>("try_event", { event }))[0],

    /** Updates rows, and returns how many. The body is JSON. */
    async update(name: keyof api.Views, conditions: api.Query, body: string) {
      const query = { ...conditions, select: "event_id" };
      const prefer = "return=representation";
      const sent = { query, body, prefer };
      return (await rest<unknown[]>("PATCH", name, sent)).data.length;
    },

    async settings() {
      const reply = await wake("none");
      return "fault" in reply ? undefined : api.settingsOf(reply);
    },

    /** Returns a message for the operator; empty if the run has ended. */
    async wakeWorker(queue: "retries" | "notifications"): Promise<string> {
      const reply = await wake(queue);
      if ("fault" in reply) {
        return `The worker has not answered: ${reply.fault}. If it is running, reload this page in a moment.`;
      }
      if (reply.status === 200) return "";

      const check = `check the deployment with ${asTyped("doctor")}`;
      return `The worker answered ${reply.status}: look at its log, and ${check}.`;
    },
  };
}
