import { carryOut, linesOf, parseFolder } from "./add/command.ts";
import { readMigrations, readProject } from "./add/project.ts";
import { planRemoval } from "./add/removal.ts";
import { type CommandLine, print, reportEnd } from "./common/cli.ts";

const COMMAND_LINE = {
  usage: "remove <folder>",
  summary:
    `Takes the receiver out of a Supabase project: deletes its files, and writes a
migration that drops it unless something of yours uses it. As with add, the
folder is the one that holds supabase/, and all in it must be committed in git.`,
  options: {
    "--yes": "do not ask",
    "--dry-run": "show what it would do, and write nothing",
  },
  exitCodes: "as with add",
} satisfies CommandLine;

const NEXT = [
  "Next: delete the endpoint at the provider, review and commit this, and then",
  "  supabase db push --remote",
  "  supabase functions delete billing-webhook",
  "  supabase functions delete billing-worker",
  "  supabase secrets unset PROVIDER_A_SIGNING_SECRET",
  "Unset its other secrets, and delete the key of its schedule, and what you have",
  "added by hand: the package, lines for it such as in .prettierignore.",
];
/** Without the migrations, the tree is as before. */
const LAST = [
  "If no database ever had the receiver, delete its migrations now. Else wait until",
  "each has run the last one, and first take them out of its history:",
];

if (import.meta.main) Deno.exit(await remove(Deno.args).catch(reportEnd));

async function remove(args: readonly string[]): Promise<number> {
  const { path, mode } = await parseFolder(args, COMMAND_LINE);
  const project = await readProject(path);
  if (project.manifest.version === "") {
    print(`There is nothing to remove: ${path} has no supabase/billing.json.`);
    return 0;
  }

  const migrations = await readMigrations();
  const plan = await planRemoval(project, migrations, Date.now());
  const isWritten = await carryOut(path, mode, plan);
  print(isWritten ? "Done." : "Nothing was written.");

  if (plan.todo.length > 0) print("Left for you:", ...linesOf(plan.todo));
  if (plan.uses.length > 0) {
    print("Look at these, which name the receiver:", ...plan.uses);
  }
  if (isWritten) print(...NEXT, ...lastSteps(plan.last));

  const isWanted = isWritten || mode === "dry-run";
  return isWanted && plan.todo.length === 0 ? 0 : 1;
}

function lastSteps(paths: readonly string[]): string[] {
  if (paths.length === 0) return [];
  const versions = paths.map((path) => /\d+/.exec(path));
  const files = paths.map((path) => `supabase/${path}`);
  return [
    ...LAST,
    `  supabase migration repair --remote --status reverted ${
      versions.join(" ")
    }`,
    `  rm ${files.join(" ")}`,
  ];
}
