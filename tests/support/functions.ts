import {
  type Environment,
  functionEnvironment,
} from "../../scripts/common/environment.ts";
import { localKeys } from "../../scripts/local_stack/keys.ts";
import {
  functionService,
  platformEnvironment,
} from "../../scripts/local_stack/functions.ts";
import { startGateway } from "../../scripts/local_stack/gateway.ts";
import { createService } from "../../scripts/local_stack/service.ts";
import { freePort } from "./machine.ts";
import { eventually } from "./hang_limit.ts";
import { type Answer, post } from "./send.ts";
import { setting } from "./test_environment.ts";

type LogLine = Record<string, unknown> & { message: string };

export interface ServedFunction extends AsyncDisposable {
  readonly url: string;
  /** All that it has written so far, as it was written. */
  output(): string;
  readonly log: readonly LogLine[];
  logged(fits: (line: LogLine) => boolean): Promise<LogLine>;
  /** SIGKILL; it is gone when this resolves. */
  kill(): Promise<void>;
}

interface ServeOptions {
  /** Over what the platform gives and the local secrets; undefined: not set. */
  readonly env?: Readonly<Record<string, string | undefined>>;
}

export async function serveFunction(
  name: string,
  { env = {} }: ServeOptions = {},
): Promise<ServedFunction> {
  const lines: string[] = [];
  const log: LogLine[] = [];
  const port = await freePort();
  const settings = Object.entries({
    ...platformEnvironment({
      apiUrl: setting("TEST_API_URL"),
      dbUrl: setting("TEST_DATABASE_URL"),
      keys: await localKeys(),
    }),
    ...functionEnvironment({}),
    ...env,
  }).filter((entry): entry is [string, string] => entry[1] !== undefined);
  const spec = functionService(name, {
    denoPath: setting("TEST_FUNCTIONS_DENO"),
    port,
    env: Object.fromEntries(settings),
  });
  const service = createService(spec, {
    onLog: (line) => {
      lines.push(line);
      log.push(...parseLine(line));
    },
    onUnexpectedEnd: (text) => lines.push(text),
  });
  await service.start();

  return {
    url: `http://127.0.0.1:${port}/${name}`,
    output: () => lines.join("\n"),
    log,
    logged: (fits) =>
      eventually(
        () => log.find(fits),
        () => `${fits} in the log:\n${lines.join("\n")}`,
      ),
    kill: service.kill,
    [Symbol.asyncDispose]: service.stop,
  };
}

function parseLine(text: string): LogLine[] {
  try {
    return [JSON.parse(text)];
  } catch {
    return [];
  }
}

export function startReceiver(options?: ServeOptions): Promise<ServedFunction> {
  return serveFunction("billing-webhook", options);
}

export async function gatewayTo(
  receiver: ServedFunction,
): Promise<AsyncDisposable & { readonly url: string }> {
  const gateway = await startGateway(0, {
    targets: { webhook: Number(new URL(receiver.url).port) },
    keys: await localKeys(),
  });
  return {
    url: `http://127.0.0.1:${gateway.port}/functions/v1/billing-webhook`,
    [Symbol.asyncDispose]: gateway.close,
  };
}

type Counts = Record<string, number>;

export async function startWorker(
  env: Environment,
): Promise<ServedFunction & { wake(): Promise<Counts> }> {
  const served = await serveFunction("billing-worker", { env });
  const wake = async () => (await takeTurn(served)).notifications;
  return { ...served, wake };
}

export async function takeTurn(
  worker: ServedFunction,
): Promise<Record<"retries" | "alerts" | "notifications", Counts>> {
  const { status, body } = await wake(worker);
  if (status === 200) return JSON.parse(body);
  throw new Error(`The worker answered ${status}\n${worker.output()}`);
}

/** Wakes a worker for one queue, or as the schedule does. */
export async function wake(
  { url }: ServedFunction,
  queue?: string,
): Promise<Answer> {
  const { secret } = await localKeys();
  const search = queue ? `?queue=${queue}` : "";
  return await post(url + search, { headers: { apikey: secret } });
}
