import { asTyped, type Environment } from "../common/environment.ts";
import { isLoopback } from "../common/loopback.ts";
import {
  type Api,
  type Reply,
  type RequestTools,
  type Row,
  sendRequest,
} from "../common/project_api.ts";
import type { ProviderName } from "../common/sign.ts";

export interface Target {
  readonly url: string;
  /** Without a slash at its end; undefined if `url` does not contain it. */
  readonly projectUrl: string | undefined;
  readonly secretKey: string | undefined;
  readonly dbUrl: string | undefined;
  readonly provider: ProviderName;
}

export interface Here extends RequestTools {
  readonly env: Environment;
  readonly clock: () => number;
}

/** What checks read of a project, by its REST API. */
export interface Project extends Here {
  readonly url: string;
  readonly provider: ProviderName;
  readonly health: Promise<Row<"billing_health"> | undefined>;
  readonly read: Api["read"];
}

/** The schedule wakes the worker every minute, so this is late. */
export const RUN_MS = 5 * 60 * 1000;

export interface Finding {
  readonly name: string;
  readonly state: "ok" | "warning" | "FAIL" | "skipped";
  /** Ends with what to do if something is wrong. */
  readonly text: string;
  /** Whether nothing answers at the address, so that no other check can succeed. */
  readonly isDown?: boolean;
}

export type Findings = AsyncGenerator<Finding>;

export class Failed extends Error {}

class Down extends Failed {}

/** Thrown by a check whose finding may be intended. */
export class Warned extends Error {}

/** Thrown by a check that cannot be made; the message says why. */
export class Skipped extends Error {}

/** `look` returns the text of a success, or throws. */
export async function check(
  name: string,
  look: () => string | Promise<string>,
): Promise<Finding> {
  try {
    return { name, state: "ok", text: await look() };
  } catch (error) {
    const { message: text } = error as Error;
    const isDown = error instanceof Down;
    if (error instanceof Failed) return { name, state: "FAIL", text, isDown };
    if (error instanceof Warned) return { name, state: "warning", text };
    if (error instanceof Skipped) return { name, state: "skipped", text };
    throw error;
  }
}

export function orSkip<T>(value: T | undefined, why: string): T {
  if (value === undefined) throw new Skipped(why);
  return value;
}

/** @param todo What to do without an answer, if this address has not answered before. */
export async function answerTo(
  url: string,
  init: RequestInit,
  here: Here,
  todo?: string,
): Promise<Reply> {
  const reply = await sendRequest(url, init, here);
  if (!("fault" in reply)) return reply;

  const { fault } = reply;
  if (todo === undefined) {
    throw new Failed(
      `no answer: ${fault}. Run this again, or look at the function's log`,
    );
  }

  const [place] = url.split("?");
  const text = isLoopback(url) && /refused/i.test(fault)
    ? `nothing is running at ${place}. ${todo}`
    : `cannot reach ${place}: ${fault}. ${todo}`;
  const isSlow = fault.startsWith("no answer within");
  throw isSlow ? new Failed(text) : new Down(text);
}

/** Explains what the function itself does not answer to a call without a key. */
export function notRefused(
  { status }: Reply,
  url: string,
  functionName: string,
): Failed {
  const { deploy, log } = instructionsFor(url, functionName);
  if (status === 401) {
    return new Failed(
      `refused with 401 by Supabase's key check. Keep "verify_jwt = false" in supabase/config.toml, and ${deploy}`,
    );
  }
  return new Failed(
    status >= 500
      ? `answered ${status}: the function does not start. Its log says why (${log})`
      : `answered ${status} instead of 401. If the URL is right, ${deploy}`,
  );
}

export function instructionsFor(url: string, functionName = "") {
  const start = asTyped("start");
  const startStack = `Start the local stack: ${start}`;
  return isLoopback(url)
    ? {
      log: `in the terminal of ${start}`,
      set: "in supabase/functions/.env",
      deploy: `restart the local stack: ${start}`,
      migrate: `${start} (a restart applies the migration)`,
      query: "In psql",
      schedule: startStack,
      reach: startStack,
      secretKey: `Use the one that ${start} prints`,
      database: startStack,
      databaseUrl: `Copy the URL that ${start} prints`,
    }
    : {
      log: `dashboard, Edge Functions, ${functionName}, Logs`,
      set: "with supabase secrets set",
      deploy:
        `deploy from the root of the repository: supabase functions deploy ${functionName} --use-api`,
      migrate: "supabase db push --remote",
      query: "In the SQL editor",
      schedule: "See the schedule below, which needs SUPABASE_DB_URL",
      reach:
        "Compare its project ref with the dashboard, and check that the project is not paused",
      secretKey:
        "Use one that begins with sb_secret_ (dashboard, Project Settings, API Keys)",
      database:
        "Check in the dashboard that the project is not paused and its database is healthy",
      databaseUrl: "Copy the URL from Connect in the dashboard",
    };
}
