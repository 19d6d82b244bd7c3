import { createCommand, toolEnvironment } from "../../common/create_command.ts";
import { spawnGuarded } from "../../common/spawn_guarded.ts";
import { waitUntil } from "../../common/wait_until.ts";
import { readLines } from "../../local_stack/lines.ts";
import { choosePorts } from "../../local_stack/ports.ts";
import { stackSettings } from "../../../tests/support/started_stack.ts";
import type { RecordedLine } from "./render_view.ts";

const READY = "Stop with Ctrl-C";
const LOG_LINE = /^\[(\w+)\] (.*)$/;
const WITHIN_MS = 20_000;

/** An event to send. */
export interface Trigger {
  readonly args: readonly string[];
  /** In the last line that comes of it: the worker sends after the answer. */
  readonly until: string;
}

/**
 * Runs `start` in an empty folder, sends events with `trigger`, and returns the
 * log lines that `start` has printed.
 */
export async function recordStart(
  triggers: readonly Trigger[],
): Promise<readonly RecordedLine[]> {
  await using opened = new AsyncDisposableStack();
  const folder = await Deno.makeTempDir({ prefix: "billing-webhook-picture-" });
  opened.defer(() => Deno.remove(folder, { recursive: true }));
  const env = {
    ...toolEnvironment(),
    NO_COLOR: "1",
    ...stackSettings(await choosePorts({}), folder),
  };
  const { child, ended } = spawnGuarded({
    command: Deno.execPath(),
    args: ["task", "start", "--json"],
    stopSignal: "SIGTERM",
    options: { clearEnv: true, env, stdout: "piped", stderr: "null" },
  });
  const recorded: RecordedLine[] = [];
  const ready = Promise.withResolvers<void>();
  const read = readLines(child.stdout, (text) => {
    if (text.includes(READY)) ready.resolve();
    const [, source, line] = LOG_LINE.exec(text) ?? [];
    if (source === undefined || line === undefined) return;
    recorded.push({
      time: new Date().toTimeString().slice(0, 8),
      source,
      line,
    });
  });
  opened.defer(async () => {
    child.kill("SIGTERM");
    await Promise.all([ended, read]);
  });
  await Promise.race([ready.promise, read.then(notReady)]);
  for (const { args, until } of triggers) {
    await createCommand(Deno.execPath(), {
      args: ["task", "trigger", ...args],
      env,
    }).output();
    const isDone = await waitUntil(
      () => recorded.some(({ line }) => line.includes(until)),
      { timeoutMs: WITHIN_MS },
    );
    if (!isDone) throw new Error(`start printed no line with ${until}`);
  }
  return recorded;
}

function notReady(): never {
  throw new Error("start has ended before it was ready");
}
