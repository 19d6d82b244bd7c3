import { asTyped } from "../common/how_started.ts";
import { isLoopback } from "../common/loopback.ts";

type FunctionName = "billing-webhook" | "billing-worker";

/** How things are fixed in one place, for what a failed check says to do. */
export interface Instructions {
  /** Where a function's log is. */
  readonly log: (name: FunctionName) => string;
  /** Makes a function run as it is in this clone; follows "if so, ". */
  readonly deploy: (name: FunctionName) => string;
  /** Applies the migration; a command. */
  readonly migrate: string;
  readonly query: (statement: string) => string;
  /** What to do if the project's URL leads nowhere. */
  readonly reach: string;
  /** Which secret key is right. */
  readonly secretKey: string;
  /** What to do if the database does not answer. */
  readonly database: string;
  /** Which URL of the database is right. */
  readonly databaseUrl: string;
}

const LOCAL_STACK: Instructions = {
  log: () => `in the terminal of ${asTyped("start")}`,
  deploy: () => `restart the local stack: ${asTyped("start")}`,
  migrate: `${asTyped("start")} (a restart applies the migration)`,
  query: (statement) => `In psql: ${statement}`,
  reach: `Start the local stack: ${asTyped("start")}`,
  secretKey: `Use the one that ${asTyped("start")} prints`,
  database: `Start the local stack: ${asTyped("start")}`,
  databaseUrl: `Copy the URL that ${asTyped("start")} prints`,
};

const DEPLOYMENT: Instructions = {
  log: (name) => `dashboard, Edge Functions, ${name}, Logs`,
  deploy: (name) =>
    `deploy from the root of the repository: supabase functions deploy ${name} --use-api`,
  migrate: "supabase db push --remote",
  query: (statement) => `In the SQL editor: ${statement}`,
  reach: "Check the project's URL (SUPABASE_URL or --project-url)",
  secretKey:
    "Use one that begins with sb_secret_ (dashboard, Project Settings, API Keys)",
  database:
    "Check in the dashboard that the project is not paused and its database is healthy, and https://status.supabase.com",
  databaseUrl: "Copy the URL from Connect in the dashboard",
};

/** Returns the instructions for the place that a URL leads to. */
export function instructionsFor(url: string): Instructions {
  return isLoopback(url) ? LOCAL_STACK : DEPLOYMENT;
}
