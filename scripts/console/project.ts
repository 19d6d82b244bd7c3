/** The project that the console shows: its database, and its worker. */
import type { Database } from "../../supabase/functions/_shared/billing/database/database.types.ts";
import { asTyped } from "../common/how_started.ts";
import * as api from "../common/project_api.ts";
import { type RequestTools, sendRequest } from "../common/requests.ts";

type Values = Readonly<Record<string, string | number | null>>;

/** A call of an SQL function in schema `billing`. */
export interface Call {
  readonly call: string;
  readonly args: Values;
}

/** An update of a table in schema `billing`; a list means "one of". */
export interface Update {
  readonly update: "failed_events" | "notifications";
  readonly set: Values;
  readonly where: Readonly<Record<string, string | readonly string[]>>;
}

type TrialResult =
  Database["public"]["Functions"]["billing_try_event"]["Returns"][number];

export type Project = ReturnType<typeof openProject>;

export function openProject(
  access: api.ProjectAccess,
  { fetch }: Pick<RequestTools, "fetch">,
) {
  const tools = { fetch, clock: Date.now };
  const { rest, read } = api.openApi(access, { ...tools, timeoutMs: 10_000 });
  const { projectUrl: url, secretKey } = access;

  /** Waits only a few seconds for a run to end, because a page waits for it. */
  const wake = (queue: string) => {
    const init = { method: "POST", headers: api.restHeaders(secretKey) };
    const target = `${url}/functions/v1/billing-worker?queue=${queue}`;
    return sendRequest(target, init, { ...tools, timeoutMs: 8_000 });
  };

  async function callSql<T>(name: string, args: object): Promise<T> {
    const body = JSON.stringify(args);
    return (await rest<T>("POST", `rpc/billing_${name}`, { body })).data;
  }

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

    call: ({ call, args }: Call) => callSql<string>(call, args),

    /** Asks whether an account has access, as apps do, with the default grace. */
    hasAccess: (account_id: string) =>
      callSql<boolean>("has_access", { account_id }),

    /** Asks for the result that an event would have, without any effect. */
    tryEvent: async (event: object) =>
      (await callSql<[TrialResult]>("try_event", { event }))[0],

    /**
     * Updates rows, and returns how many.
     *
     * @param options.more Further query parameters.
     * @param options.body JSON text that is sent instead of the values.
     */
    async update(
      { update, set, where }: Update,
      { more = {}, body = JSON.stringify(set) } = {},
    ): Promise<number> {
      // Only a single value may contain a comma: those in lists are words.
      const conditions = Object.entries(where).map(([name, value]) => [
        name,
        typeof value === "string" ? `eq.${value}` : `in.(${value})`,
      ]);
      const { data } = await rest<unknown[]>("PATCH", `billing_${update}`, {
        query: {
          ...Object.fromEntries(conditions),
          ...more,
          select: "event_id",
        },
        body,
        prefer: "return=representation",
      });
      return data.length;
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
