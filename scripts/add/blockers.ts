import type { MigrationPlan } from "./migrations.ts";
import type { PlannedFile } from "./plan_files.ts";
import type { Project } from "./project.ts";
import type { Receiver } from "./receiver.ts";

/** Returns why nothing can be done, each with what to do first. */
export function blockersOf(
  receiver: Receiver,
  { project, files, migrations }: {
    project: Project;
    files: readonly PlannedFile[];
    migrations: MigrationPlan;
  },
): string[] {
  const blockers: string[] = [];
  const known = new Set(receiver.migrations.map(({ id }) => id));
  const { manifest, obstacles } = project;
  if (
    isNewer(manifest.version, receiver.version) ||
    Object.keys(manifest.migrations).some((id) => !known.has(id))
  ) {
    blockers.push(
      `The project has version ${manifest.version}, which is newer than this one,
${receiver.version}. Run add from a newer clone.`,
    );
  }
  const foreign = files.filter(({ state }) => state === "foreign")
    .map(({ path }) => `supabase/${path}`);
  if (foreign.length > 0) {
    blockers.push(list(
      foreign,
      `These files are there already, and add did not put them there. If they are
yours, move them. If they are an older copy of the receiver, delete them. Or
replace a single one with --force.`,
    ));
  }
  if (obstacles.size > 0) {
    blockers.push(
      list(
        [...new Set(obstacles.values())],
        "These are in the way: add replaces no folder, and writes through no link.",
      ),
    );
  }
  if (migrations.twice.size > 0) blockers.push(twiceText(migrations.twice));
  return blockers;
}

function twiceText(twice: ReadonlyMap<string, string>): string {
  const pairs = Array.from(
    twice,
    ([later, first]) =>
      `supabase/migrations/${first}\n  supabase/migrations/${later}`,
  );
  return `${
    list(
      pairs,
      "These migrations are there twice, as after a merge of two branches that both\nadded the receiver.",
    )
  }\nKeep those that are applied somewhere already, as a rule the earlier ones. To\ndelete the later ones:\n  rm ${
    [...twice.keys()].map((name) => `supabase/migrations/${name}`).join(
      " \\\n    ",
    )
  }`;
}

function list(items: readonly string[], text: string): string {
  return `${text}\n${items.map((item) => `  ${item}`).join("\n")}`;
}

/** Compares versions such as 1.10.0, number by number. */
function isNewer(version: string, other: string): boolean {
  const numbers = (text: string) => text.split(/[.-]/).map(Number);
  const [a, b] = [numbers(version), numbers(other)];
  const at = a.findIndex((number, i) => number !== b[i]);
  return at >= 0 && (a[at] ?? 0) > (b[at] ?? 0);
}
