import { createCommand } from "../common/create_command.ts";

const NOT_THERE = { code: 1, stdout: new Uint8Array() };

/** So many paths are named. */
const NAMED = 10;

/**
 * Refuses a project in which git cannot show and undo what is written.
 *
 * @throws {Error} If its work tree is not clean, with what is not.
 */
export async function requireCleanTree(project: string): Promise<void> {
  if (!await git(project, "ls-files", "supabase")) {
    throw new Error(
      `Nothing was written: git does not track ${project}/supabase. Commit it first, so that git can show and undo what add changes.`,
    );
  }
  const status = await git(project, "status", "--porcelain");
  if (status === "") return;
  const lines = status.trimEnd().split("\n");
  const more = lines.splice(NAMED).length;
  throw new Error(
    `Nothing was written: these changes are not committed. Commit or stash them first.\n${
      lines.join("\n")
    }${more > 0 ? `\nand ${more} more` : ""}`,
  );
}

/** Returns the output of git; an empty text if it fails or is not there. */
async function git(cwd: string, ...args: string[]): Promise<string> {
  const output = createCommand("git", { args, cwd }).output();
  const { code, stdout } = await output.catch(() => NOT_THERE);
  return code === 0 ? new TextDecoder().decode(stdout) : "";
}
