import { withLf } from "./fingerprint.ts";
import type { Plan } from "./plan.ts";
import type { FileState, PlannedFile } from "./plan_files.ts";
import { COPIED_FOLDERS } from "./receiver.ts";
import { unifiedDiff } from "./unified_diff.ts";

/** Above this number, new files of a folder are counted instead of listed. */
const LISTED = 5;

const TITLES: readonly (readonly [FileState, string])[] = [
  ["new", "New"],
  ["updated", "Updated"],
  ["removed", "Removed: this version does not have them"],
  ["released", "Kept: this version does not have them, but you changed them"],
  ["changed", "Changed by you, and kept; nothing new in this version"],
  ["conflict", "Changed by you, and kept; this version changes them too"],
];

/** Returns the lines that say what `add` does, file by file. */
export function planLines(plan: Plan): string[] {
  const groups = TITLES.map(([state, title]) =>
    group(title, plan.files.filter((file) => file.state === state))
  );
  const unchanged = plan.files.filter(({ state }) => state === "unchanged");
  return [
    ...groups.flat(),
    ...migrationLines(plan),
    ...otherLines(plan),
    ...unchanged.length > 0
      ? [`Unchanged: ${fileCount(unchanged.length)}`]
      : [],
    ...takenLines(plan),
  ];
}

/**
 * Returns what the user has to do, whatever is written.
 *
 * @param command This one, as the user types it.
 */
export function todoLines(
  { config, files }: Plan,
  command: string,
): string[] {
  const conflicts = files.filter(({ state }) => state === "conflict");
  return [
    ...config.todo.flatMap((text) => text.split("\n")),
    ...conflicts.flatMap(({ path }) => [
      `Merge supabase/${path} by hand, then`,
      `  ${command} --keep ${path}`,
      `or take this version's:`,
      `  ${command} --force ${path}`,
    ]),
    ...config.warnings.flatMap((text) => `Warning: ${text}`.split("\n")),
  ];
}

function group(title: string, planned: readonly PlannedFile[]): string[] {
  if (planned.length === 0) return [];
  const folders = Map.groupBy(
    planned,
    ({ path }) =>
      COPIED_FOLDERS.find((folder) => path.startsWith(`${folder}/`)),
  );
  const lines = Array.from(
    folders,
    ([folder, inFolder]) =>
      inFolder.length > LISTED && inFolder[0]?.state === "new"
        ? [`  supabase/${folder}/: ${fileCount(inFolder.length)}`]
        : inFolder.flatMap((file) => [
          `  supabase/${file.path}`,
          ...difference(file),
        ]),
  );
  return [`${title}: ${fileCount(planned.length)}`, ...lines.flat()];
}

/** For a file that the user changed. */
function difference(
  { path, state, ours = "", theirs = "" }: PlannedFile,
): string[] {
  if (state !== "changed" && state !== "conflict") return [];
  return unifiedDiff(
    { name: `yours/${path}`, text: withLf(theirs) },
    { name: `this version/${path}`, text: withLf(ours) },
  ).map((line) => `    ${line}`);
}

function migrationLines(
  { migrations: { added, ahead, squashed } }: Plan,
): string[] {
  const names = [...added.keys()];
  const shown = names.length > LISTED ? [names[0], "...", names.at(-1)] : names;
  return [
    ...names.length > 0
      ? [
        `New migrations, behind all others: ${names.length}`,
        ...shown.map((name) => `  ${name}`),
      ]
      : [],
    ...ahead === undefined ? [] : [
      "Warning: the newest of your migrations leaves too few seconds before now, so",
      `these go up to ${ahead}, in UTC. Until then, rename what`,
      '"supabase migration new" makes: it would sort before them.',
    ],
    ...squashed.length > 0
      ? [
        `Squashed, and not added again: ${ranges(squashed).join(", ")}`,
        "  Run this in each database that is rebuilt from the squashed file:",
        "  select public.revoke_billing_rights();",
      ]
      : [],
  ];
}

function takenLines({ takenNames }: Plan): string[] {
  if (takenNames.size === 0) return [];
  return [
    "",
    "Warning: your migrations create what the receiver has under the same name, so",
    '"supabase db push" will stop at its first migration:',
    ...Array.from(takenNames, ([name, file]) => `  ${file}: ${name}`),
    "Rename yours before you add the receiver: docs/switch.md says how.",
  ];
}

function otherLines({ config, hidesEnv }: Plan): string[] {
  return [
    ...config.text === undefined
      ? []
      : ["The functions' sections, at the end of supabase/config.toml"],
    ...hidesEnv
      ? ["functions/.env, which holds secrets, in supabase/.gitignore"]
      : [],
  ];
}

function fileCount(count: number): string {
  return count === 1 ? "1 file" : `${count} files`;
}

/** 0001, 0002, 0003 and 0005 are "0001 to 0003, 0005". */
function ranges(ids: readonly string[]): string[] {
  const runs: string[][] = [];
  for (const id of ids) {
    const run = runs.at(-1);
    if (run && Number(run.at(-1)) + 1 === Number(id)) run.push(id);
    else runs.push([id]);
  }
  return runs.map((run) =>
    run.length === 1 ? run[0]! : `${run[0]} to ${run.at(-1)}`
  );
}
