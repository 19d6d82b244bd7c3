import { createCommand, toolEnvironment } from "../../common/create_command.ts";
import { spawnGuarded } from "../../common/spawn_guarded.ts";
import { choosePorts } from "../../local_stack/ports.ts";
import { stackSettings } from "../../../tests/support/started_stack.ts";
import type { RecordedLine } from "./render_view.ts";

const READY = "Stop with Ctrl-C";
const LOG_LINE = /^\[(\w+)\] (.*)$/;
/** For the last lines to arrive: the account is notified after the answer. */
const QUIET_MS = 2_000;

/**
 * Runs `start` in an empty folder, sends events with `trigger`, and returns the
 * log lines that `start` has printed.
 *
 * @param triggers The arguments of each `trigger`.
 */
export async function recordStart(
  triggers: readonly (readonly string[])[],
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
  for (const args of triggers) {
    await createCommand(Deno.execPath(), {
      args: ["task", "trigger", ...args, "--url", webhookUrl(env)],
      env,
    }).output();
    await new Promise((resolve) => setTimeout(resolve, QUIET_MS));
  }
  return recorded;
}

function webhookUrl(env: Readonly<Record<string, string>>): string {
  return `http://127.0.0.1:${
    env["BILLING_API_PORT"]
  }/functions/v1/billing-webhook`;
}

function notReady(): never {
  throw new Error("start has ended before it was ready");
}

async function readLines(
  stream: ReadableStream<Uint8Array<ArrayBuffer>>,
  onLine: (line: string) => void,
): Promise<void> {
  let rest = "";
  for await (const text of stream.pipeThrough(new TextDecoderStream())) {
    const lines = (rest + text).split("\n");
    rest = lines.pop() ?? "";
    lines.forEach(onLine);
  }
}
