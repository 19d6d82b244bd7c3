/**
 * `deno task add <folder>`: puts the receiver into a project that exists
 * already, and brings it up to date there. git shows the difference, and undoes it.
 */
import { overlookedFiles, requireCleanTree } from "./add/git.ts";
import { makePlan, type Plan, writePlan } from "./add/plan.ts";
import { findProject, readProject, readReceiver } from "./add/project.ts";
import { toolNotes } from "./add/tools.ts";
import {
  type CommandLine,
  parseCommandLine,
  reportEnd,
  UsageError,
} from "./common/cli.ts";
import { asTyped, isFromPackage } from "./common/how_started.ts";
import { print, printError, wrap } from "./common/print.ts";

const COMMAND_LINE = {
  usage: "add <folder>",
  summary:
    `Puts the receiver into a Supabase project that you already have, and updates it
there. The folder is the one that holds supabase/, and everything in it must be
committed in git, which shows what add has changed, and undoes it. Nothing is
written outside of that folder, nor through a link.`,
  options: {
    "--yes": "do not ask",
    "--dry-run": "show what it would do, and write nothing",
    "--check":
      "for CI: exit code 1 if the project is not up to date; writes nothing",
  },
  details:
    `A file of the receiver that you have changed is kept and named. add cannot see
your database: "supabase db push" refuses if a name is taken there.

Exit code: 0 if nothing is left for you to do, else 1; 2 for a wrong command
line.`,
} as const satisfies CommandLine;

const FIRST_PUSH =
  "The push creates nothing if your database already has one of the names.";
const NEXT = [
  "Next: review and commit it, and then",
  "  supabase db push --remote",
  "  supabase functions deploy billing-webhook --use-api",
  "  supabase functions deploy billing-worker --use-api",
];

if (import.meta.main) Deno.exit(await add(Deno.args).catch(reportEnd));

export async function add(args: readonly string[]): Promise<number> {
  const { folder, mode } = parseAddArguments(args);
  // `deno task` and npm run in the repository, and name the user's own folder.
  const from = Deno.env.get("INIT_CWD") || Deno.cwd();
  const path = await findProject(folder, from);

  const receiver = await readReceiver();
  const project = await readProject(path);
  const plan = await makePlan(receiver, project, Date.now());
  const notes = [...plan.notes, ...await toolNotes(path)];

  const files = plan.changes.map(({ path }) => `supabase/${path}`);
  const blockers = [...plan.blockers, ...await overlookedFiles(path, files)];
  if (blockers.length > 0) {
    printError("Nothing was written.", ...linesOf(blockers));
    return 1;
  }

  const isDone = plan.changes.length === 0;
  if (!isDone) print(`Version ${receiver.version} for ${path}:`);
  print(...planLines(plan));

  const isWritten = !isDone && (mode === "ask" || mode === "yes");
  if (isWritten) {
    await requireCleanTree(path);
    if (mode === "ask" && !mayWrite()) return 1;
    await requireCleanTree(path); // An editor may have saved a file meanwhile.
    await writePlan(project.supabase, plan);
  }

  const state = `${path} has version ${receiver.version}.`;
  if (isWritten) print(`Done: ${state}`);
  else if (!isDone) print("Not up to date, and nothing was written.");
  else if (plan.kept.length === 0) print(`Up to date: ${state}`);

  if (plan.todo.length > 0) print("Left for you:", ...linesOf(plan.todo));
  const hasNotes = notes.length > 0 && (isWritten || mode === "dry-run");
  if (hasNotes) print("For the tools of this project:", ...linesOf(notes));

  const isFirst = plan.changes.some(({ path }) => /_billing\.sql$/.test(path));
  if (isWritten && isFirst) print(FIRST_PUSH);
  if (isWritten) print(...NEXT);

  return plan.todo.length > 0 || (mode === "check" && !isDone) ? 1 : 0;
}

function parseAddArguments(args: readonly string[]) {
  const { values, operands } = parseCommandLine(args, COMMAND_LINE);
  const [folder, ...more] = operands;
  if (folder === undefined || more.length > 0) {
    const example = asTyped(isFromPackage ? "add ." : "add ../my-app");
    const what = "Name the folder that holds supabase/";
    throw new UsageError(`${what}, as in "${example}".`);
  }

  const [mode = "ask", ...others] = (["yes", "dry-run", "check"] as const)
    .filter((name) => values[name]);
  if (others.length > 0) {
    throw new UsageError(`Choose one of --${mode} and --${others[0]}.`);
  }
  return { folder, mode };
}

function mayWrite(): boolean {
  if (Deno.stdin.isTerminal()) return confirm("Write this?");
  throw new UsageError("There is no terminal to ask: add --yes or --dry-run.");
}

function planLines({ changes, kept }: Plan): string[] {
  return [
    ...changes.map(({ verb, path }) => `  ${verb} supabase/${path}`),
    ...kept.map((path) => `  keep supabase/${path}, which you have changed`),
  ];
}

function linesOf(paragraphs: readonly string[]): string[] {
  return paragraphs.flatMap((text) => {
    const [prose = "", ...copied] = text.split("\n");
    const [first, ...more] = wrap(prose, 78);
    return [`- ${first}`, ...more.map((line) => `  ${line}`), ...copied];
  });
}
