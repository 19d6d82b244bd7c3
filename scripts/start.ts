/**
 * `deno task start`: runs the local stack and shows its deliveries until it is
 * stopped. If the output is not a terminal, it prints the functions' log lines.
 *
 * @module
 */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { styleText } from "node:util";
import { reportEnd } from "./common/cli.ts";
import { defaultStateFolder } from "./common/default_state_folder.ts";
import { asTyped, COMMAND_START, PROJECT } from "./common/how_started.ts";
import { printable } from "./common/print.ts";
import { aborted, abortOnEnd } from "./common/abort_on_end.ts";
import { announcement } from "./local_stack/announcement.ts";
import {
  type Environment,
  functionEnvironment,
  readEnvFile,
} from "./common/environment.ts";
import { publishRunningStack } from "./common/running_stack.ts";
import { createLiveView } from "./live_view/live_view.ts";
import { createLineWriter } from "./local_stack/lines.ts";
import { startNotificationReceiver } from "./local_stack/notification_receiver.ts";
import {
  parseStartArguments,
  type StartArguments,
} from "./local_stack/start_arguments.ts";
import { startStack } from "./local_stack/start_stack.ts";
import { watchSources } from "./local_stack/watch_sources.ts";
import { startWorkerTimer } from "./local_stack/worker_timer.ts";

/** For the last lines of the output. */
const FLUSH_WITHIN_MS = 1_000;

const STANDARD_COLUMNS = 80;

if (import.meta.main) Deno.exit(await main(Deno.args, Deno.env.toObject()));

async function main(args: string[], env: Environment): Promise<number> {
  const ending = new AbortController();
  // The gateway is in this process, and a terminal or pipe that nobody reads
  // must not block it.
  const output = createLineWriter(Deno.stdout, () => ending.abort());
  const errors = createLineWriter(Deno.stderr, () => ending.abort());
  try {
    const wanted = parseStartArguments(args, env);
    if (Deno.build.os === "windows") {
      throw new Error(
        'Cannot start on Windows: use WSL, or Docker and "supabase start".',
      );
    }
    if (!existsSync(join(PROJECT, "supabase/functions/billing-webhook"))) {
      throw new Error(
        `Cannot start: ${PROJECT} does not have the receiver. Run this there first: ${
          asTyped("add .")
        }`,
      );
    }
    await abortOnEnd(ending, env);
    return await run(wanted, { env, ending, print: output.print });
  } catch (error) {
    return reportEnd(error, { out: output.print, err: errors.print });
  } finally {
    await Promise.all(
      [output, errors].map((one) => one.flush({ withinMs: FLUSH_WITHIN_MS })),
    );
  }
}

async function run(
  wanted: StartArguments,
  { env, ending, print }: {
    readonly env: Environment;
    readonly ending: AbortController;
    readonly print: (line: string) => void;
  },
): Promise<number> {
  const readSettings = async () =>
    functionEnvironment(env, await readEnvFile());
  const settings = await readSettings();
  const dataDir = wanted.dataDir ?? await defaultStateFolder();
  const beginMs = performance.now();
  type Log = (line: string, source: string) => void;
  const early: Parameters<Log>[] = []; // before all is ready
  let log: Log = (...line) => early.push(line);
  using view = wanted.json || !Deno.stdout.isTerminal()
    ? undefined
    : createLiveView({ print, columns, paint: styleText, clock: Date.now });
  print("Starting the local stack");
  try {
    await using receiver = startNotificationReceiver(
      (line) => log(line, "notification"),
    );
    const served = receiver.addTo(settings);
    await using stack = await startStack({
      dataDir,
      ports: wanted.ports,
      env: served,
      signal: ending.signal,
      onProgress: (text) => print(`  ${text}`),
      onLog: (line, source) => {
        if (/^(webhook|worker|restart)$/.test(source)) log(line, source);
      },
    });
    await using _running = await publishRunningStack(dataDir, {
      apiUrl: stack.urls.api,
      dbUrl: stack.dbUrl,
    });
    using _timer = startWorkerTimer(stack.urls.worker, {
      secretKey: stack.keys.secret,
    });
    const seconds = ((performance.now() - beginMs) / 1000).toFixed(1);
    print(`Ready after ${seconds} s\n`);
    print(announcement(stack, {
      env: settings,
      dataDir,
      isDefault: wanted.dataDir === undefined,
      run: COMMAND_START,
    }));
    log = view?.onLog ??
      ((line, source) => print(printable(`[${source}] ${line}`)));
    for (const line of early) log(...line);

    using _watched = watchSources(stack, {
      settings: served,
      readSettings: async () => receiver.addTo(await readSettings()),
      note: log,
      print: (line) => print(printable(line)),
    });
    const reason = await Promise.race([stack.failed, aborted(ending.signal)]);
    print(reason ? `Stopping because ${reason}` : "Stopping");
    return reason ? 1 : 0;
  } catch (error) {
    if (!ending.signal.aborted) throw error;
    print("Stopped before it was ready");
    return 0;
  }
}

/** A terminal that does not know its size says 0. */
function columns(): number {
  return Deno.consoleSize().columns || STANDARD_COLUMNS;
}
