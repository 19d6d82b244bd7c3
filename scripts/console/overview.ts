import type { Database } from "../../supabase/functions/_shared/billing/database.types.ts";
import { ANSWERS } from "../../supabase/functions/_shared/billing/errors.ts";
import { countOpen } from "./failures.ts";
import { ask, type Project } from "./project.ts";

/** Supabase's API sends no more, unless it is told to. */
const MAX_ROWS = 1_000;

type Health = Database["public"]["Views"]["billing_health"]["Row"];

/** What the first page shows. */
export type Overview = Awaited<ReturnType<typeof readOverview>>;

/** Reads what the first page shows. */
export async function readOverview(project: Project) {
  const [health, codes] = await Promise.all([
    readHealth(project),
    readCodes(project),
  ]);
  return { health, codes };
}

async function readHealth(project: Project): Promise<Health> {
  const { data } = await ask(
    project,
    (signal) =>
      project.database.from("billing_health").select("*")
        .abortSignal(signal).single(),
  );
  return data!; // one row, always
}

/** How many failures of an error code are open. */
interface CodeCount {
  readonly code: string;
  readonly open: number;
}

/** Returns the codes of open failures, the most frequent first. */
async function readCodes(project: Project): Promise<readonly CodeCount[]> {
  const counts = await countRows(project) ?? await countEachCode(project);
  return counts.filter(({ open }) => open > 0)
    .sort((a, b) => b.open - a.open);
}

/** Counts in one request; undefined if there are more rows than it reads. */
async function countRows(
  project: Project,
): Promise<readonly CodeCount[] | undefined> {
  const { data, count } = await ask(
    project,
    (signal) =>
      project.database.from("billing_failed_events")
        .select("error_code", { count: "exact" })
        .is("resolved_at", null).limit(MAX_ROWS).abortSignal(signal),
  );
  if (data.length < count) return undefined;
  const byCode = Map.groupBy(data, ({ error_code }) => error_code);
  return Array.from(byCode, ([code, { length }]) => ({ code, open: length }));
}

async function countEachCode(project: Project): Promise<readonly CodeCount[]> {
  return await Promise.all(
    Object.keys(ANSWERS).map(async (code) => ({
      code,
      open: await countOpen(project, code),
    })),
  );
}
