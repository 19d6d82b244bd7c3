/**
 * `deno task start`: the local stack and its functions' log lines, until it is
 * told to stop.
 *
 * @module
 */
import { print } from "./common/print.ts";
import { announcement } from "./stack/announcement.ts";
import {
  type Environment,
  functionEnvironment,
  readEnvFile,
} from "./stack/environment.ts";
import {
  hasChannel,
  startNotificationReceiver,
} from "./stack/notification_receiver.ts";
import {
  parseStartArguments,
  START_USAGE,
  type StartArguments,
} from "./stack/start_arguments.ts";
import { startStack } from "./stack/start_stack.ts";
import { defaultStateFolder } from "./stack/state_folder.ts";
import { watchLauncher } from "./stack/watch_launcher.ts";
import { startWorkerTimer } from "./stack/worker_timer.ts";

if (import.meta.main) Deno.exit(await main(Deno.args, Deno.env.toObject()));

async function main(args: string[], env: Environment): Promise<number> {
  try {
    const wanted = parseStartArguments(args, env);
    if (wanted.help) {
      console.log(START_USAGE);
      return 0;
    }
    if (Deno.build.os === "windows") {
      throw new Error(
        'Cannot start on Windows: use WSL, or Docker and "supabase start".',
      );
    }
    return await run(wanted, env);
  } catch (error) {
    console.error((error as Error).message);
    return 1;
  }
}

async function run(wanted: StartArguments, env: Environment): Promise<number> {
  const ending = new AbortController();
  function end() {
    ending.abort();
  }

  // One Ctrl-C arrives twice: from the terminal, and from `deno task`.
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
    Deno.addSignalListener(signal, end);
  }
  await watchLauncher(env, end);

  const settings = functionEnvironment(env, await readEnvFile());
  const dataDir = wanted.dataDir ?? await defaultStateFolder();
  const begin = performance.now();
  const early: string[] = []; // log lines, kept until all is up
  let log: (line: string) => void = (line) => early.push(line);
  console.log("Starting the local stack");
  try {
    await using receiver = hasChannel(settings)
      ? undefined
      : startNotificationReceiver((line) => log(`[notification] ${line}`));
    await using stack = await startStack({
      dataDir,
      ports: wanted.ports,
      env: { ...settings, ...receiver?.env },
      signal: ending.signal,
      onProgress: (text) => console.log(`  ${text}`),
      onLog: ({ source, text }) => {
        if (/^(webhook|worker)$/.test(source)) log(`[${source}] ${text}`);
      },
    });
    using _timer = startWorkerTimer(stack.urls.worker, {
      secretKey: stack.keys.secret,
    });
    const seconds = ((performance.now() - begin) / 1000).toFixed(1);
    console.log(`Ready after ${seconds} s\n`);
    console.log(announcement(stack, {
      env: settings,
      dataDir,
      isUsual: wanted.dataDir === undefined,
      run: runnerOf(env),
    }));
    for (const line of early) print(line);
    log = print;

    const reason = await Promise.race([stack.failed, aborted(ending.signal)]);
    console.log(reason ? `Cannot go on: ${reason}` : "Stopping");
    return reason ? 1 : 0;
  } catch (error) {
    if (!ending.signal.aborted) throw error;
    console.log("Stopped before it was ready");
    return 0;
  }
}

function runnerOf(env: Environment): string {
  return env["npm_command"] === "exec"
    ? `npx -y deno@${Deno.version.deno} task`
    : "deno task";
}

function aborted(signal: AbortSignal): Promise<undefined> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve(undefined);
    signal.addEventListener("abort", () => resolve(undefined));
  });
}
