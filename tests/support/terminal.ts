/** A user at a terminal, who types the commands of the docs. */
import { stripVTControlCharacters } from "node:util";
import manifest from "../../package.json" with { type: "json" };
import { createCommand } from "../../scripts/common/processes.ts";
import {
  spawnGroup,
  supabaseCli,
  toolEnvironment,
} from "../../scripts/local_stack/tools.ts";
import type { Environment } from "../../scripts/common/environment.ts";
import { waitUntil } from "../../scripts/local_stack/wait_until.ts";
import { freePort, leftOf, processTree } from "./machine.ts";
import { eventually } from "./hang_limit.ts";

/** The last line of `start` before it serves. */
export const READY = "Stop with Ctrl-C";

/** How the pages have a user run a command from the npm package. */
export const NPX = `npx --yes ./${manifest.name}-${manifest.version}.tgz`;

export interface Typed {
  readonly code: number;
  readonly output: string;
}

/**
 * Opens a terminal whose `deno`, also if npx fetches it, is this Deno, whose `psql` runs
 * the same SQL, and whose `supabase` is the pinned CLI, not used yet. The user types the
 * values of `filledIn` instead of its names; without tools, there is only Node.js.
 */
export async function openTerminal(
  path: string,
  filledIn: Readonly<Record<string, string>> = {},
  { hasTools = true } = {},
) {
  const home = await Deno.makeTempDir({ prefix: "billing-webhook-home-" });
  const { PATH } = toolEnvironment();
  const env: Record<string, string> = {
    ...toolEnvironment(),
    SUPABASE_HOME: `${home}/.supabase`,
    ...(hasTools && { PATH: `${home}:${PATH}` }),
  };
  if (hasTools) await makeTools(home);

  function bash(block: string, more: Environment = {}) {
    const text = Object.entries(filledIn)
      .reduce((text, [name, value]) => text.replaceAll(name, value), block);
    const piped = { stdout: "piped", stderr: "piped" } as const;
    const options = { cwd: path, env: { ...env, ...more }, clearEnv: true };
    return { text, options: { ...options, ...piped } };
  }

  return {
    path,
    home,
    env,
    async type(
      block: string,
      { env = {}, input = "" }: { env?: Environment; input?: string } = {},
    ): Promise<Typed> {
      const { text, options } = bash(block, env);
      const child = createCommand("bash", {
        ...options,
        args: ["-ec", text],
        stdin: "piped",
      }).spawn();
      // A command that reads nothing may have ended by now.
      await new Blob([input]).stream().pipeTo(child.stdin).catch(() => {});

      const { code, stdout, stderr } = await child.output();
      const output = [stdout, stderr]
        .map((bytes) => new TextDecoder().decode(bytes)).join("");
      return { code, output: plain(output) };
    },
    start(command: string, { columns }: { columns?: number } = {}) {
      const { text, options } = bash(`exec ${command}`);
      const atTerminal = `stty cols ${columns}; ${text}`;
      return outputOf(spawnGroup({
        command: columns ? "script" : "bash", // script is of util-linux
        args: columns ? ["-qec", atTerminal, "/dev/null"] : ["-ec", text],
        options: { ...options, env: { ...env, TERM: "xterm" } },
      }));
    },
    [Symbol.asyncDispose]: () => Deno.remove(home, { recursive: true }),
  };
}

async function outputOf({ child, ended }: ReturnType<typeof spawnGroup>) {
  let raw = "";
  let isEnded = false;
  const read = [child.stdout, child.stderr].map(async (stream) => {
    const texts = stream.pipeThrough(new TextDecoderStream());
    for await (const text of texts) raw += text;
  });
  const end = ended.then(() => isEnded = true);
  // It gives up by itself: each of its parts has a minute.
  const isReady = () => isEnded || raw.includes(READY);
  await waitUntil(isReady, { timeoutMs: Infinity });
  if (isEnded) throw new Error(`Cannot start:\n${raw}`);

  const output = () => plain(raw);
  const lines = () =>
    output().slice(output().indexOf(READY)).split("\n").slice(1).filter(
      Boolean,
    );

  let isStopped = false;
  async function stop() {
    if (isStopped) return [];
    isStopped = true;
    if (isEnded) throw new Error(`It ended by itself:\n${raw}`);
    const tree = await processTree(child.pid);
    child.kill("SIGTERM");
    await Promise.all([end, ...read]);
    return await leftOf(tree);
  }

  return {
    output,
    lines,
    line: (pattern: RegExp): Promise<string> =>
      eventually(
        () => lines().find((text) => pattern.test(text)),
        () => `${pattern} in a line of:\n${lines().join("\n")}`,
      ),
    /** Ends it. Returns the commands of processes that are left of it. */
    stop,
    [Symbol.asyncDispose]: async () => void await stop(),
  };
}

/** Where a stack on free ports will be, and the settings that tell the commands. */
export async function stackPlace(data: string) {
  const free: number[] = [];
  let api: number | undefined;
  while (api === undefined) {
    free.push(await freePort());
    // The database and the webhook follow the API.
    api = free.find((port) => [1, 10].every((i) => free.includes(port + i)));
  }
  return {
    apiUrl: `http://127.0.0.1:${api}`,
    dbUrl: `postgresql://postgres:postgres@127.0.0.1:${api + 1}/postgres`,
    env: { BILLING_PORT_BASE: `${api - 21}`, BILLING_STACK_DATA: data },
  };
}

export async function placeForStack(
  opened: AsyncDisposableStack,
): ReturnType<typeof stackPlace> {
  const data = await Deno.makeTempDir({ prefix: "billing-webhook-data-" });
  // After `reset` it is gone already.
  opened.defer(() => Deno.remove(data, { recursive: true }).catch(() => {}));
  return stackPlace(data);
}

function plain(text: string): string {
  return stripVTControlCharacters(text).replaceAll("\r", "");
}

async function makeTools(folder: string): Promise<void> {
  const deno = `exec '${Deno.execPath()}'`;
  const psql = new URL("psql.ts", import.meta.url).pathname;
  const cli = supabaseCli().map((word) => `'${word}'`).join(" ");
  const tools = {
    deno: `${deno} "$@"`,
    npx: `[ "$1 $2" = "-y deno@${Deno.version.deno}" ] || exit 64
shift 2
${deno} "$@"`,
    supabase: `exec ${cli} "$@"`,
    psql: `${deno} run -A '${psql}' "$@"`,
  };
  const mode = 0o755;
  for (const [name, script] of Object.entries(tools)) {
    const text = `#!/bin/sh\n${script}\n`;
    await Deno.writeTextFile(`${folder}/${name}`, text, { mode });
  }
}
