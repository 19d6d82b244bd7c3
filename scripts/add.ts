import { carryOut, linesOf, parseFolder } from "./add/command.ts";
import { makePlan } from "./add/plan.ts";
import { readProject, readReceiver } from "./add/project.ts";
import { toolNotes } from "./add/tools.ts";
import { type CommandLine, print, reportEnd } from "./common/cli.ts";
import { asTyped, isFromPackage } from "./common/environment.ts";

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
your database: "supabase db push" refuses if a name is taken there.`,
  exitCodes: "0 if nothing is left for you to do, else 1",
} satisfies CommandLine;

const FIRST = [
  ...(isFromPackage ? [`Try it on this machine: ${asTyped("start")}`] : []),
  "The push creates nothing if your database has a schema billing already, or",
  "another name of the receiver: in public, they begin with billing_.",
];
const NEXT = [
  "Next: review and commit it, and then",
  "  supabase db push --remote",
  "  supabase functions deploy billing-webhook --use-api",
  "  supabase functions deploy billing-worker --use-api",
];

if (import.meta.main) Deno.exit(await add(Deno.args).catch(reportEnd));

export async function add(args: readonly string[]): Promise<number> {
  const { path, mode } = await parseFolder(args, COMMAND_LINE);
  const receiver = await readReceiver();
  const project = await readProject(path);
  const plan = await makePlan(receiver, project, Date.now());
  const notes = [...plan.notes, ...await toolNotes(path)];

  const isDone = plan.changes.length === 0;
  const changed = plan.kept
    .map((path) => `keep supabase/${path}, which you have changed`);
  const isWritten = await carryOut(path, mode, { ...plan, changed });

  const state = `${path} has version ${receiver.version}.`;
  if (isWritten) print(`Done: ${state}`);
  else if (!isDone) print("Not up to date, and nothing was written. Run add.");
  else if (plan.kept.length === 0) print(`Up to date: ${state}`);

  if (plan.todo.length > 0) print("Left for you:", ...linesOf(plan.todo));
  const hasNotes = notes.length > 0 && (isWritten || mode === "dry-run");
  if (hasNotes) print("For the tools of this project:", ...linesOf(notes));

  const isFirst = plan.changes.some(({ path }) => /_billing\.sql$/.test(path));
  if (isWritten && isFirst) print(...FIRST);
  if (isWritten) print(...NEXT);

  const isWanted = isDone || isWritten || mode === "dry-run";
  return isWanted && plan.todo.length === 0 ? 0 : 1;
}
