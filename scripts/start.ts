import { existsSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { aborted, isDeepStrictEqual, styleText } from "node:util";
import { abortOnEnd } from "./common/abort_on_end.ts";
import { reportEnd, terminalColumns } from "./common/cli.ts";
import {
  defaultStateFolder,
  publishRunningStack,
} from "./common/running_stack.ts";
import {
  asTyped,
  type Environment,
  functionEnvironment,
  PROJECT,
  readEnvFile,
} from "./common/environment.ts";
import { createLiveView, plainLine } from "./live_view/live_view.ts";
import { announcement } from "./local_stack/announcement.ts";
import { startNotificationReceiver } from "./local_stack/notification_receiver.ts";
import { type Stack, startStack } from "./local_stack/stack.ts";
import {
  parseStartArguments,
  type StartArguments,
} from "./local_stack/start_arguments.ts";

const FUNCTIONS = join(PROJECT, "supabase", "functions");

const FLUSH_WITHIN_MS = 1_000;

/** The most lines that wait for the reader of the output. */
const MAX_WAITING = 10_000;

/** Pause if the output is full: another process may have made it non-blocking. */
const FULL_RETRY_MS = 50;

/** On a hosted project, pg_cron wakes the worker once per minute. */
const WAKE_EVERY_MS = 5_000;

const SERVE_CHANGES_EVERY_MS = 500;

type Log = (line: string, source: string) => void;

if (import.meta.main) Deno.exit(await main(Deno.args, Deno.env.toObject()));

async function main(args: string[], env: Environment): Promise<number> {
  const ending = new AbortController();
  // The gateway is in this process, so a terminal or pipe that stops reading must
  // not block it.
  const output = createLineWriter(Deno.stdout, () => ending.abort());
  const errors = createLineWriter(Deno.stderr, () => ending.abort());

  try {
    const wanted = parseStartArguments(args, env);
    checkCanStart();
    await abortOnEnd(ending, env);
    return await run(wanted, {
      env,
      signal: ending.signal,
      print: output.print,
    });
  } catch (error) {
    return reportEnd(error, { out: output.print, err: errors.print });
  } finally {
    await Promise.all([output.flush(), errors.flush()]);
  }
}

function checkCanStart(): void {
  if (Deno.build.os === "windows") {
    throw new Error(
      'Cannot start on Windows: use WSL, or Docker and "supabase start".',
    );
  }
  if (!existsSync(join(FUNCTIONS, "billing-webhook"))) {
    throw new Error(
      `Cannot start: ${PROJECT} does not have the receiver. Run this there first: ${
        asTyped("add .")
      }`,
    );
  }
}

async function run(
  { ports, dataDir: givenDir }: StartArguments,
  { env, signal, print }: {
    env: Environment;
    signal: AbortSignal;
    print: (line: string) => void;
  },
): Promise<number> {
  const readSettings = async () =>
    functionEnvironment(env, await readEnvFile());
  const settings = await readSettings();
  const dataDir = givenDir ?? await defaultStateFolder();

  const beginMs = performance.now();
  const view = Deno.stdout.isTerminal()
    ? createLiveView({
      print,
      columns: terminalColumns,
      paint: styleText,
      clock: Date.now,
    })
    : (line: string, source: string) => print(plainLine(line, source));
  // Until the stack is announced, the lines wait.
  const held: Parameters<Log>[] = [];
  let show: Log = (...line) => held.push(line);
  const log: Log = (...line) => show(...line);
  print("Starting the local stack");

  try {
    await using receiver = startNotificationReceiver(
      (line) => log(line, "notification"),
    );
    const fault = watchFault();
    if (fault) {
      log(
        `changes are not served until you restart this command (${fault})`,
        "reload",
      );
    }

    await using stack = await startStack({
      dataDir,
      ports,
      env: receiver.addTo(settings),
      watch: fault === undefined,
      detached: true,
      signal,
      onProgress: (text) => print(`  ${text}`),
      onLog: (line, source) => {
        if (/^(webhook|worker)$/.test(source)) log(line, source);
      },
    });
    await using _running = await publishRunningStack(dataDir, {
      apiUrl: stack.urls.api,
      dbUrl: stack.dbUrl,
    });

    // If a call fails, the worker's own log says so.
    await wakeWorker(stack).catch(() => {});
    using _timer = every(WAKE_EVERY_MS, () => wakeWorker(stack));

    const seconds = ((performance.now() - beginMs) / 1000).toFixed(1);
    print(`Ready after ${seconds} s\n`);
    const isDefault = givenDir === undefined;
    print(announcement(stack, { env: settings, dataDir, isDefault }));
    show = view;
    for (const line of held) show(...line);

    let served = settings;
    const serveChangedSettings = async () => {
      const changed = await readSettings();
      if (isDeepStrictEqual(changed, served)) return;
      served = changed;
      await stack.restartFunctions(receiver.addTo(served));
      log("the new settings are served", "reload");
    };
    using _changes = every(
      SERVE_CHANGES_EVERY_MS,
      serveChangedSettings,
      (error) => log(error.message, "reload"),
    );

    const reason = await Promise.race([stack.failed, aborted(signal, stack)]);
    print(reason ? `Stopping because ${reason}` : "Stopping");
    return reason ? 1 : 0;
  } catch (error) {
    if (!signal.aborted) throw error;
    print("Stopped before it was ready");
    return 0;
  }
}

/** If a reader is too slow, lines are dropped; if it has ended, `onGone` is called. */
function createLineWriter(to: typeof Deno.stdout, onGone: () => void) {
  let waiting = 0;
  let last = Promise.resolve();

  async function write(line: string) {
    for (let rest = new TextEncoder().encode(`${line}\n`); rest.length > 0;) {
      try {
        rest = rest.subarray(await to.write(rest));
      } catch (error) {
        if (!(error instanceof Deno.errors.WouldBlock)) throw error;
        await sleep(FULL_RETRY_MS);
      }
    }
  }

  function print(line: string) {
    if (waiting > MAX_WAITING) return;
    waiting++;
    last = last.then(() => write(line)).catch(onGone).finally(() => waiting--);
  }

  async function flush() {
    await Promise.race([last, sleep(FLUSH_WITHIN_MS)]);
  }

  return { print, flush };
}

async function wakeWorker({ urls, keys }: Stack): Promise<void> {
  const response = await fetch(urls.worker, {
    method: "POST",
    headers: { apikey: keys.secret },
  });
  await response.body?.cancel();
}

/**
 * Returns why the functions' folder cannot be watched. On Linux, the account's
 * editors may have used up its limit of watched files.
 */
function watchFault(): string | undefined {
  try {
    Deno.watchFs(FUNCTIONS).close();
    return undefined;
  } catch (error) {
    return (error as Error).message;
  }
}

function every(
  ms: number,
  work: () => Promise<void>,
  onError: (error: Error) => void = () => {},
): Disposable {
  let isInProgress = false;
  const timer = setInterval(() => {
    if (isInProgress) return;
    isInProgress = true;
    work().catch(onError).finally(() => isInProgress = false);
  }, ms);
  return { [Symbol.dispose]: () => clearInterval(timer) };
}
