/**
 * `deno task add <folder>`: puts the receiver into a project that exists
 * already, and brings it up to date there.
 *
 * @module
 */
import { join } from "node:path";
import { parseAddArguments } from "./add/arguments.ts";
import { findProject } from "./add/find_project.ts";
import { isUpToDate, makePlan, type Plan } from "./add/plan.ts";
import { readProject } from "./add/project.ts";
import { readReceiver } from "./add/receiver.ts";
import { planLines, todoLines } from "./add/show_plan.ts";
import { writePlan } from "./add/write_plan.ts";
import { reportEnd, UsageError } from "./common/cli.ts";
import { asTyped } from "./common/how_started.ts";
import { print, printError } from "./common/print.ts";
import { shellWord } from "./common/shell_word.ts";

const DEPLOY = [
  "supabase db push --remote",
  "supabase functions deploy billing-webhook --use-api",
  "supabase functions deploy billing-worker --use-api",
];
const LEADS = ["Next: ", "Then: "];
const LATER = "      ";
const RENAME = "rename what the warning lists (docs/switch.md, step 1)";

if (import.meta.main) Deno.exit(await add(Deno.args).catch(reportEnd));

async function add(args: readonly string[]): Promise<number> {
  const { folder, mode, force, keep } = parseAddArguments(args);
  const project = await findProject(folder, {
    env: Deno.env.toObject(),
    cwd: Deno.cwd(),
  });
  const receiver = await readReceiver();
  for (const path of [force, keep]) {
    if (path !== undefined && !receiver.files.has(path)) {
      throw new UsageError(`${path} is not a file of the receiver.`);
    }
  }
  const nowMs = Date.now();
  async function planNow(): Promise<Plan> {
    return makePlan(receiver, await readProject(project, receiver), {
      decisions: { force, keep },
      clock: () => nowMs,
    });
  }
  const plan = await planNow();
  const typed = `${asTyped("add")} ${shellWord(folder)}`;
  const todo = todoLines(plan, typed);
  const before = plan.takenNames.size > 0 ? [RENAME] : [];
  if (plan.blockers.length > 0) {
    printError("Nothing was written.");
    for (const text of plan.blockers) printError("", ...text.split("\n"));
    return 1;
  }
  if (isUpToDate(plan)) {
    print(`Up to date: ${project} has version ${plan.version}.`);
    print(...planLines(plan), ...todo);
    return 0;
  }
  print(`Version ${plan.version} for ${project}`, "", ...planLines(plan), "");
  if (mode === "check") return end(todo, "Not up to date.", [...before, typed]);
  if (mode === "show") {
    return end(todo, "Nothing was written.", [...before, typed], 0);
  }
  if (mode === "ask" && plan.changes.length > 0 && !mayWrite()) {
    print("Nothing was written.");
    return 1;
  }
  await writePlan(join(project, "supabase"), plan, planNow);
  const isDone = plan.config.todo.length === 0 &&
    !plan.files.some(({ state }) => state === "conflict");
  const next = [...before, ...DEPLOY];
  return isDone
    ? end(todo, `Done: ${project} has version ${plan.version}.`, next, 0)
    : end(todo, "This is left for you:", next);
}

/** Prints the result, what is left to do, and what comes next, in order. */
function end(
  todo: readonly string[],
  result: string,
  next: readonly string[],
  code = 1,
): number {
  const lines = next.map((step, i) => `${LEADS[i] ?? LATER}${step}`);
  print(result, ...todo, ...lines);
  return code;
}

function mayWrite(): boolean {
  if (Deno.stdin.isTerminal()) return confirm("Write this?");
  throw new UsageError("There is no terminal to ask: add --yes or --dry-run.");
}
