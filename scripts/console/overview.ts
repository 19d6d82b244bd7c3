import type { Database } from "../../supabase/functions/_shared/billing/database.types.ts";
import { ANSWERS } from "../../supabase/functions/_shared/billing/errors.ts";
import { countOpen } from "./failures.ts";
import type { HourCount } from "./hour_count.ts";
import { ask, type Project } from "./project.ts";

type Health = Database["public"]["Views"]["billing_health"]["Row"];

/** What the first page shows. */
export type Overview = Awaited<ReturnType<typeof readOverview>>;

const HOURS = 72;
const HOUR_MS = 3_600_000;

/** Reads what the first page shows. */
export async function readOverview(project: Project, nowMs: number) {
  const [health, hours, codes] = await Promise.all([
    readHealth(project),
    readHours(project, nowMs),
    readCodes(project),
  ]);
  return { health, hours, codes };
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

/** Returns the last hours in order, also those without an event. */
async function readHours(
  project: Project,
  nowMs: number,
): Promise<readonly HourCount[]> {
  const { data } = await ask(
    project,
    (signal) =>
      project.database.from("billing_events_per_hour")
        .select("hour, outcome, events").abortSignal(signal),
  );
  const last = Math.floor(nowMs / HOUR_MS);
  const counts = Array.from({ length: HOURS }, (_, i) => ({
    hour: new Date((last - HOURS + 1 + i) * HOUR_MS).toISOString(),
    applied: 0,
    stale: 0,
    failed: 0,
  }));
  for (const { hour, outcome, events } of data) {
    const index = Math.floor(Date.parse(hour ?? "") / HOUR_MS) - last + HOURS -
      1;
    const count = counts[index];
    if (count !== undefined && isOutcome(outcome)) {
      count[outcome] += events ?? 0;
    }
  }
  return counts;
}

function isOutcome(
  text: string | null,
): text is "applied" | "stale" | "failed" {
  return text === "applied" || text === "stale" || text === "failed";
}

/** Returns how many failures of each code are open, the most frequent first. */
async function readCodes(
  project: Project,
): Promise<readonly { code: string; open: number }[]> {
  const counts = await Promise.all(
    Object.keys(ANSWERS).map(async (code) => ({
      code,
      open: await countOpen(project, code),
    })),
  );
  return counts.filter(({ open }) => open > 0)
    .sort((a, b) => b.open - a.open);
}
