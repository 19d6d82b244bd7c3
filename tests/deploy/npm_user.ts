/**
 * A user of the npm package: a project made by the CLI, the package as a file
 * beside it, and no clone. Home, npm's installations and the data are new.
 *
 * @module
 */
import { join } from "node:path";
import {
  createCommand,
  toolEnvironment,
} from "../../scripts/common/create_command.ts";
import type { Environment } from "../../scripts/common/environment.ts";
import { REPOSITORY } from "../../scripts/common/how_started.ts";
import {
  type ProcessGroup,
  spawnGroup,
} from "../../scripts/common/spawn_group.ts";
import { runSupabaseCli } from "../../scripts/common/supabase_cli.ts";
import { choosePorts } from "../../scripts/local_stack/ports.ts";
import { CLI_ENVIRONMENT } from "../support/cli_environment.ts";
import { commitAll } from "../support/project_folder.ts";
import { stackSettings } from "../support/started_stack.ts";
import type { Typed } from "./deployer.ts";

/** A user, and their terminal. */
export interface NpmUser extends AsyncDisposable {
  /** The project's folder. */
  readonly path: string;
  /** The project's own URL, once `start` runs. */
  readonly apiUrl: string;
  readonly dbUrl: string;
  /** Runs a command of the package with npx and waits for its end. */
  npx(
    args: readonly string[],
    options?: { env?: Environment },
  ): Promise<Typed>;
  /**
   * The same with what npx has installed, as npx starts it. For a package in a
   * file, npx unpacks the file each time, three times over.
   */
  runInstalled: NpmUser["npx"];
  /** Starts a command with npx that goes on until it is stopped. */
  spawnNpx(args: readonly string[]): ProcessGroup;
}

const NAME = "billing-webhook-receiver";
const PACKAGE = `./${NAME}.tgz`;

/** Makes the package, and the project. */
export async function makeNpmUser(): Promise<NpmUser> {
  await using opened = new AsyncDisposableStack();
  const made = await Deno.makeTempDir({ prefix: "billing-webhook-npm-" });
  opened.defer(() => Deno.remove(made, { recursive: true }));
  const folder = await Deno.realPath(made);
  const [home, path] = [join(folder, "home"), join(folder, "app")];
  const cache = join(home, ".npm");
  for (const name of [cache, path]) await Deno.mkdir(name, { recursive: true });
  // npm's downloads are those of this machine, its installations are not.
  const downloads = (await output("npm", ["config", "get", "cache"])).trim();
  await Deno.symlink(join(downloads, "_cacache"), join(cache, "_cacache"));
  const { denoDir } = JSON.parse(
    await output(Deno.execPath(), ["info", "--json"]),
  );

  const packed = await output("npm", [
    ...["pack", "--json", "--ignore-scripts", "--pack-destination", folder],
  ]);
  const [{ filename }] = JSON.parse(packed);
  await Deno.rename(join(folder, filename), join(path, PACKAGE));
  await runSupabaseCli(["init", "--yes"], {
    purpose: "make a project",
    home: join(folder, "cli"),
    cwd: path,
    env: CLI_ENVIRONMENT,
  });
  // Deno must read neither.
  for (const name of ["package.json", "deno.json"]) {
    await Deno.writeTextFile(
      join(path, name),
      '{ "name": "app", "imports": 1 }',
    );
  }
  await commitAll(path);

  const data = await Deno.makeTempDir({ prefix: "billing-webhook-data-" });
  opened.defer(() => Deno.remove(data, { recursive: true }));
  const ports = await choosePorts({});
  const terminal = {
    ...toolEnvironment(),
    ...stackSettings(ports, data),
    HOME: home,
    npm_config_cache: cache,
    DENO_DIR: denoDir,
    NO_COLOR: "1",
  };

  function spawn(
    command: string,
    { args, env = {} }: { args: readonly string[]; env?: Environment },
  ) {
    return spawnGroup({
      command,
      args,
      options: {
        cwd: path,
        env: { ...terminal, ...env },
        clearEnv: true,
        stdout: "piped",
        stderr: "piped",
      },
    });
  }

  const spawnNpx = (args: readonly string[], env: Environment = {}) =>
    spawn("npx", { args: ["--yes", PACKAGE, ...args], env });

  const owned = opened.move();
  return {
    path,
    apiUrl: `http://127.0.0.1:${ports.api}`,
    dbUrl: `postgresql://postgres:postgres@127.0.0.1:${ports.db}/postgres`,
    npx: (args, { env } = {}) => endOf(spawnNpx(args, env)),
    runInstalled: async (args, { env } = {}) =>
      await endOf(
        spawn(await installedProgram(cache), {
          args,
          env: { ...env, npm_command: "exec" },
        }),
      ),
    spawnNpx,
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/** Returns the program that npx has installed, of the only package. */
async function installedProgram(cache: string): Promise<string> {
  const [folder, ...more] = await Array.fromAsync(
    Deno.readDir(join(cache, "_npx")),
  );
  if (folder === undefined || more.length > 0) {
    throw new Error(`Not one installation: ${folder?.name}, ${more.length}`);
  }
  const { name } = folder;
  return join(cache, "_npx", name, "node_modules/.bin", NAME);
}

async function endOf({ child, ended }: ProcessGroup): Promise<Typed> {
  const [{ code }, ...said] = await Promise.all([
    ended,
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
  ]);
  return { code, said: said.join("") };
}

async function output(command: string, args: string[]): Promise<string> {
  const { success, stdout, stderr } = await createCommand(command, {
    args,
    cwd: REPOSITORY,
  }).output();
  const decoder = new TextDecoder();
  if (success) return decoder.decode(stdout);
  throw new Error(`Cannot run ${command}: ${decoder.decode(stderr)}`);
}
