/** Runs programs that end by themselves, above all the Supabase CLI. */
import { join } from "node:path";
import importMap from "../../import_map.json" with { type: "json" };
import { type Environment, REPOSITORY } from "../common/environment.ts";
import { FaultInLines } from "../common/cli.ts";
import { createCommand, signalTo } from "../common/processes.ts";

/** The npm packages whose programs the local stack runs. */
export const NODE_MODULES = join(REPOSITORY, "node_modules");

const NEEDED = [
  /^(PATH|HOME|TMPDIR|XDG_CACHE_HOME|SSL_CERT_(FILE|DIR)|NODE_EXTRA_CA_CERTS)$/,
  /^DENO_(DIR|CERT|TLS_CA_STORE|AUTH_TOKENS|V8_FLAGS)$|^BUN_JSC_/,
  /^npm_config_|_proxy$/i,
];

const PACKAGE = "@supabase/cli-linux-x64";

/**
 * Elsewhere than on Linux for x64, Deno fetches the same version from npm: `deno.lock`
 * cannot name that package, because Deno would require the programs for all platforms.
 */
export function supabaseCli(): readonly [command: string, ...args: string[]] {
  if (Deno.build.target.startsWith("x86_64-unknown-linux")) {
    return [join(NODE_MODULES, PACKAGE, "bin", "supabase")];
  }
  const version = importMap.imports[PACKAGE].split("@").at(-1);
  return [
    Deno.execPath(),
    "run",
    "--allow-all",
    "--quiet",
    "--no-config",
    "--no-lock",
    "--node-modules-dir=none",
    `npm:supabase@${version}`,
  ];
}

export async function runSupabaseCli(
  args: readonly string[],
  { purpose, home, signal }: {
    purpose: string;
    home: string;
    signal?: AbortSignal | undefined;
  },
): Promise<string> {
  const [command, ...first] = supabaseCli();
  return await runTool({
    purpose,
    command,
    args: [...first, ...args, "--agent", "no"],
    env: {
      ...toolEnvironment(),
      SUPABASE_HOME: home,
      SUPABASE_TELEMETRY_DISABLED: "1",
      SUPABASE_NO_UPDATE_NOTIFIER: "1",
      DO_NOT_TRACK: "1",
    },
    cwd: REPOSITORY,
  }, signal);
}

/**
 * Returns what Deno and the Supabase CLI need to find their caches and the registry,
 * without anything that a function could read as a setting of its own.
 */
export function toolEnvironment(): Environment {
  return Object.fromEntries(
    Object.entries(Deno.env.toObject()).filter(([name]) =>
      NEEDED.some((pattern) => pattern.test(name))
    ),
  );
}

/**
 * Starts a program in its own session, so that Ctrl-C at the terminal does not reach
 * it. Aborting the signal also ends the programs that it has started.
 */
export function spawnGroup(
  { command, args, options, signal }: {
    command: string;
    args: readonly string[];
    options: Omit<Deno.CommandOptions, "args" | "detached" | "stdin">;
    signal?: AbortSignal | undefined;
  },
) {
  const child = createCommand(command, {
    ...options,
    args: [...args],
    detached: true,
    stdin: "null",
  }).spawn();

  const kill = (signal: Deno.Signal) => signalTo(-child.pid, signal);

  const end = () => kill("SIGTERM");
  signal?.addEventListener("abort", end);
  const ended = child.status
    .finally(() => signal?.removeEventListener("abort", end));
  return { child, ended, kill };
}

/** Runs a command to its end, and returns its standard output. */
export async function runTool(
  { purpose, command, args, env, cwd, user }: {
    purpose: string;
    command: string;
    args: readonly string[];
    env: Environment;
    cwd: string;
    user?: { readonly uid: number; readonly gid: number } | undefined;
  },
  signal?: AbortSignal,
): Promise<string> {
  signal?.throwIfAborted();
  const { child, ended } = spawnGroup({
    command,
    args,
    options: {
      env,
      clearEnv: true,
      cwd,
      ...user,
      stdout: "piped",
      stderr: "piped",
    },
    signal,
  });
  const [{ success, code }, stdout, stderr] = await Promise.all([
    ended,
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
  ]);

  signal?.throwIfAborted();
  if (success) return stdout;
  const output = `${stdout}\n${stderr}`.trim();
  throw new FaultInLines(
    `Cannot ${purpose}: the command ended with code ${code}.\n${output}`,
  );
}
