/**
 * `deno task start` at a terminal of 80 columns, in a copy of the repository
 * that a test can edit.
 *
 * @module
 */
import { spawnGroup } from "../../scripts/common/spawn_group.ts";
import { toolEnvironment } from "../../scripts/common/create_command.ts";
import { waitUntil } from "../../scripts/common/wait_until.ts";
import { HANG_LIMIT_MS } from "../support/hang_limit.ts";
import { choosePorts } from "../../scripts/local_stack/ports.ts";
import { copyRepository } from "../support/copy_repository.ts";
import { stackSettings } from "../support/started_stack.ts";

const READY = "Stop with Ctrl-C";

/** What a command printed, on which output, and how it ended. */
export interface Typed {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

/** A stack that was started at a terminal, and a second terminal beside it. */
export interface StartedAtTerminal extends AsyncDisposable {
  /** The copy of the repository. */
  readonly path: string;
  readonly id: number;
  readonly apiUrl: string;
  readonly dbUrl: string;
  /** The lines of the terminal since the stack was ready, without colours. */
  readonly lines: () => readonly string[];
  /** Waits for a line; returns it. */
  readonly line: (pattern: RegExp) => Promise<string>;
  /** Runs a task, as `deno task` does. */
  readonly task: (...args: readonly string[]) => Promise<Typed>;
}

/** Starts the stack on free ports, and waits until it is ready. */
export async function startAtTerminal(): Promise<StartedAtTerminal> {
  await using opened = new AsyncDisposableStack();
  const copy = opened.use(await copyRepository());
  const data = await Deno.makeTempDir({ prefix: "billing-webhook-data-" });
  opened.defer(() => Deno.remove(data, { recursive: true }));
  const ports = await choosePorts({});
  const env = { ...toolEnvironment(), ...stackSettings(ports, data) };
  const { child, ended } = spawnGroup({
    command: "script", // gives it a terminal; of util-linux
    args: [
      "-qec",
      `stty cols 80; exec '${Deno.execPath()}' task start`,
      "/dev/null",
    ],
    options: {
      clearEnv: true,
      env: { ...env, TERM: "xterm" },
      cwd: copy.path,
      stdout: "piped",
      stderr: "piped",
    },
  });
  let said = "";
  let isEnded = false;
  ended.then(() => isEnded = true);
  const read = [child.stdout, child.stderr].map(async (stream) => {
    for await (const text of stream.pipeThrough(new TextDecoderStream())) {
      said += text;
    }
  });
  opened.defer(async () => {
    if (!isEnded) child.kill("SIGTERM");
    await Promise.all([ended, ...read]);
  });
  await waitUntil(() => isEnded || said.includes(READY), {
    timeoutMs: HANG_LIMIT_MS,
  });
  if (!said.includes(READY)) throw new Error(`Cannot start:\n${said}`);

  function lines() {
    // deno-lint-ignore no-control-regex
    const plain = said.replaceAll(/\u001b\[[\d;]*m/g, "");
    const [, ...after] = plain.slice(plain.indexOf(READY)).split(/\r*\n/);
    return after.filter((text) => text !== "");
  }

  async function line(pattern: RegExp) {
    const find = () => lines().find((text) => pattern.test(text));
    await waitUntil(() => find() !== undefined, { timeoutMs: HANG_LIMIT_MS });
    const found = find();
    if (found === undefined) {
      throw new Error(`No line has ${pattern}:\n${lines().join("\n")}`);
    }
    return found;
  }

  async function task(...args: readonly string[]): Promise<Typed> {
    const { child, ended } = spawnGroup({
      command: Deno.execPath(),
      args: ["task", "--quiet", ...args],
      options: {
        clearEnv: true,
        env: { ...env, NO_COLOR: "1" },
        cwd: copy.path,
        stdout: "piped",
        stderr: "piped",
      },
    });
    const [{ code }, out, err] = await Promise.all([
      ended,
      new Response(child.stdout).text(),
      new Response(child.stderr).text(),
    ]);
    return { code, out, err };
  }

  const owned = opened.move();
  return {
    path: copy.path,
    id: child.pid,
    apiUrl: `http://127.0.0.1:${ports.api}`,
    dbUrl: `postgresql://postgres:postgres@127.0.0.1:${ports.db}/postgres`,
    lines,
    line,
    task,
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}
