/**
 * A user who has just cloned the repository, and runs the commands of the docs.
 *
 * @module
 */
import { LOCAL_SIGNING_SECRETS } from "../../scripts/common/environment.ts";
import { localKeys } from "../../scripts/common/keys.ts";
import { choosePorts } from "../../scripts/local_stack/ports.ts";
import { spawnGroup } from "../../scripts/common/spawn_group.ts";
import { toolEnvironment } from "../../scripts/common/create_command.ts";
import { waitUntil } from "../../scripts/common/wait_until.ts";
import { HANG_LIMIT_MS } from "../support/hang_limit.ts";
import { copyRepository } from "../support/copy_repository.ts";
import { makeTools } from "../support/make_tools.ts";
import { stackSettings } from "../support/started_stack.ts";

const READY = "Stop with Ctrl-C";

/** What a command came to. */
export interface Typed {
  readonly code: number;
  /** What it printed, without colours. */
  readonly said: string;
}

/** A clone, and a terminal in it. */
export interface Newcomer extends AsyncDisposable {
  /** The clone's folder. */
  readonly path: string;
  readonly apiUrl: string;
  readonly dbUrl: string;
  /** Types a command, and what it asks for, and waits for its end. */
  type(command: string, input?: string): Promise<Typed>;
  /** Types the command that starts the stack, and waits until it says so. */
  start(command: string): Promise<AsyncDisposable>;
}

/**
 * The commands are typed as they stand but for names that stand for something
 * (`<project-ref>`, `whsec_...`), and for the ports, which others may use.
 */
export async function newcomer(): Promise<Newcomer> {
  await using opened = new AsyncDisposableStack();
  const clone = opened.use(await copyRepository());
  const tools = await Deno.makeTempDir({ prefix: "billing-webhook-tools-" });
  opened.defer(() => Deno.remove(tools, { recursive: true }));
  const data = await Deno.makeTempDir({ prefix: "billing-webhook-data-" });
  // Where `reset` was typed, it is gone already.
  opened.defer(() => Deno.remove(data, { recursive: true }).catch(() => {}));
  await makeTools(tools);
  const typedInput = `${tools}/typed`;

  const ports = await choosePorts({});
  const api = `http://127.0.0.1:${ports.api}`;
  const dbUrl = `postgresql://postgres:postgres@127.0.0.1:${ports.db}/postgres`;
  const { secret } = await localKeys();
  const env = {
    ...toolEnvironment(),
    PATH: `${tools}:${toolEnvironment()["PATH"]}`,
    NO_COLOR: "1",
    ...stackSettings(ports, data),
  };
  const stands: [text: string, value: string][] = [
    ["https://<project-ref>.supabase.co", api],
    ["https://<your domain>", api],
    ["<function URL>", `${api}/functions/v1/billing-webhook`],
    ["<region>", "eu-central-1"],
    ["postgresql://...", dbUrl],
    ["sb_secret_...", secret],
    ["whsec_...", LOCAL_SIGNING_SECRETS.PROVIDER_A_SIGNING_SECRET],
    ["<new>", LOCAL_SIGNING_SECRETS.PROVIDER_A_SIGNING_SECRET],
    ["127.0.0.1:54321", `127.0.0.1:${ports.api}`],
    ["127.0.0.1:54322", `127.0.0.1:${ports.db}`],
  ];

  function shell(command: string) {
    let text = command;
    for (const [name, value] of stands) text = text.replaceAll(name, value);
    return spawnGroup({
      command: "bash",
      args: ["-ec", `exec < '${typedInput}'\n${text}`],
      options: {
        cwd: clone.path,
        env,
        clearEnv: true,
        stdout: "piped",
        stderr: "piped",
      },
    });
  }

  async function type(command: string, input = "") {
    await Deno.writeTextFile(typedInput, input);
    const { child, ended } = shell(command);
    const [{ code }, ...said] = await Promise.all([
      ended,
      new Response(child.stdout).text(),
      new Response(child.stderr).text(),
    ]);
    return { code, said: said.join("") };
  }

  async function start(command: string) {
    await Deno.writeTextFile(typedInput, "");
    const { child, ended } = shell(command);
    let said = "";
    const read = [child.stdout, child.stderr].map(async (stream) => {
      for await (const text of stream.pipeThrough(new TextDecoderStream())) {
        said += text;
      }
    });
    let isEnded = false;
    const end = ended.then(() => isEnded = true);
    await waitUntil(() => isEnded || said.includes(READY), {
      timeoutMs: HANG_LIMIT_MS,
    });
    const stop = async () => {
      if (!isEnded) child.kill("SIGINT");
      await Promise.all([end, ...read]);
    };
    if (!said.includes(READY)) {
      await stop();
      throw new Error(`Cannot start:\n${said}`);
    }
    return { [Symbol.asyncDispose]: stop };
  }

  const owned = opened.move();
  return {
    path: clone.path,
    apiUrl: api,
    dbUrl,
    type,
    start,
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}
