/** Whether git can show and undo what is written into a project. */
import { FaultInLines, printable } from "../common/cli.ts";
import { createCommand } from "../common/processes.ts";

/** What git sets for a hook, for the repository that the hook belongs to. */
const OF_A_HOOK = /^GIT_(?:DIR|WORK_TREE|INDEX_FILE|COMMON_DIR|PREFIX)$/;

/** Throws if the project's folder, maybe a part of a work tree, is not clean. */
export async function requireCleanTree(project: string): Promise<void> {
  const inside = await run(project, "rev-parse", "--show-prefix");
  const isTracked = !/^fatal: not a git repo/.test(inside.fault ?? "") &&
    await read(project, "ls-files", "--", "supabase") !== "";
  if (!isTracked) {
    throw new Error(
      `Nothing was written: git does not track ${project}/supabase. Commit it first, so that git can show and undo the changes.`,
    );
  }

  // As options, because the user's configuration may hide what is not tracked.
  const options = ["--no-renames", "--untracked-files=normal", "-z"];
  // The npm package may have been put into the folder for this.
  const places = [".", ":(exclude,glob)**/billing-webhook-receiver-*.tgz"];
  const status = await read(project, "status", ...options, "--", ...places);
  if (status === "") return;
  const prefix = inside.text.replace(/\n$/, "");
  const lines = status.split("\0").filter(Boolean)
    .map((line) => line.replace(` ${prefix}`, " "));
  throw new FaultInLines(
    `Nothing was written: these changes are not committed. Commit or stash them first.\n${
      firstLines(lines)
    }`,
  );
}

/** Returns why git would not show changes of these files of a project. */
export async function ignoredFiles(
  project: string,
  files: readonly string[],
): Promise<string[]> {
  if (files.length === 0) return [];
  const { text } = await run(project, "check-ignore", "--", ...files);
  if (text === "") return [];
  const lines = firstLines(text.trimEnd().split("\n"));
  return [
    `git ignores these files. Change your .gitignore, and commit.\n${lines}`,
  ];
}

function firstLines(lines: readonly string[]): string {
  const first = lines.slice(0, 10).map(printable);
  const more = lines.length - first.length;
  if (more > 0) first.push(`and ${more} more`);
  return first.join("\n");
}

async function read(project: string, ...args: string[]): Promise<string> {
  const { text, fault } = await run(project, ...args);
  if (fault === undefined) return text;
  throw new FaultInLines(
    `Nothing was written: this needs git in ${project}, to show and undo changes.\n${fault}`,
  );
}

export async function run(folder: string, ...args: string[]) {
  const env = Object.entries(Deno.env.toObject())
    .filter(([name]) => !OF_A_HOOK.test(name));
  const command = createCommand("git", {
    args: ["-c", "core.quotePath=false", ...args],
    cwd: folder,
    clearEnv: true,
    env: { ...Object.fromEntries(env), LC_ALL: "C" },
  });
  try {
    const { success, stdout, stderr } = await command.output();
    const text = new TextDecoder().decode(stdout);
    if (success) return { text };
    const error = new TextDecoder().decode(stderr);
    // A tab would be printed as \u0009.
    return { text, fault: error.trimEnd().replaceAll("\t", "  ") };
  } catch {
    return { text: "", fault: "git is not installed." };
  }
}
