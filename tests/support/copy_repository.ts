import { fileURLToPath } from "node:url";
import { createCommand } from "../../scripts/common/create_command.ts";

const REPOSITORY = new URL("../../", import.meta.url);
const PARTS = [
  "LICENSE",
  "README.md",
  "deno.json",
  "deno.lock",
  "docs",
  "import_map.json",
  "package.json",
  "scripts",
  "supabase",
  "tests",
];

/** Files of a developer's own machine, which git ignores. */
const LEFT_OUT = /^\.(env|env\.local|temp|branches)$/;

/**
 * A copy of those parts of the repository that the receiver and its tests need.
 */
export interface RepositoryCopy extends AsyncDisposable {
  readonly path: string;
  /**
   * Runs a command in it.
   *
   * @returns what it printed, without colours
   * @throws {Error} With what it printed, if it fails.
   */
  run(command: string, ...args: string[]): Promise<string>;
}

/** Copies the repository as it stands; its packages are shared. */
export async function copyRepository(): Promise<RepositoryCopy> {
  const path = await Deno.makeTempDir({ prefix: "billing-webhook-copy-" });
  for (const part of PARTS) {
    await copy(new URL(part, REPOSITORY), `${path}/${part}`);
  }
  const packages = fileURLToPath(new URL("node_modules", REPOSITORY));
  await Deno.symlink(packages, `${path}/node_modules`);
  return {
    path,
    run: (command, ...args) => run(command, { args, cwd: path }),
    [Symbol.asyncDispose]: () => Deno.remove(path, { recursive: true }),
  };
}

async function copy(from: URL, to: string): Promise<void> {
  if (!(await Deno.stat(from)).isDirectory) {
    return await Deno.copyFile(from, to);
  }
  await Deno.mkdir(to);
  for await (const { name } of Deno.readDir(from)) {
    if (LEFT_OUT.test(name)) continue;
    await copy(new URL(`${from}/${name}`), `${to}/${name}`);
  }
}

async function run(
  command: string,
  { args, cwd }: { args: string[]; cwd: string },
): Promise<string> {
  const { success, stdout, stderr } = await createCommand(command, {
    args,
    cwd,
    env: { NO_COLOR: "1", FORCE_COLOR: "" },
    stdin: "null",
  }).output();
  const decoder = new TextDecoder();
  const said = decoder.decode(stdout) + decoder.decode(stderr);
  if (!success) {
    throw new Error(`Cannot run ${command} ${args.join(" ")}:\n${said}`);
  }
  return said;
}
