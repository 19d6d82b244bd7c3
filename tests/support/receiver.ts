/**
 * A receiver in a process of its own, against the stack under test, with the
 * environment that a test wants.
 *
 * @module
 */
import {
  type Environment,
  functionEnvironment,
} from "../../scripts/stack/environment.ts";
import { localKeys } from "../../scripts/stack/keys.ts";
import { platformEnvironment } from "../../scripts/stack/platform_environment.ts";
import { functionService } from "../../scripts/stack/serve_functions.ts";
import { createService } from "../../scripts/stack/service.ts";
import { waitUntil } from "../../scripts/stack/wait_until.ts";
import { freePort } from "./free_port.ts";
import { setting } from "./test_environment.ts";

/** A line of the receiver's log. */
export type LogLine = Record<string, unknown> & { message: string };

/** A running receiver. */
export interface Receiver extends AsyncDisposable {
  /** Where deliveries go. */
  readonly url: string;
  /** All that it has written so far, as it was written. */
  output(): string;
  /** The first log line that fits, as soon as it is there. */
  logged(fits: (line: LogLine) => boolean): Promise<LogLine>;
}

const LOGGED_WITHIN = 5_000;

/**
 * Starts a receiver on a free port.
 *
 * @param options.env On top of what the platform gives and the local secrets.
 */
export async function startReceiver(
  { env = {} }: { env?: Environment } = {},
): Promise<Receiver> {
  const lines: string[] = [];
  const port = freePort();
  const spec = await functionService("billing-webhook", {
    denoPath: setting("TEST_FUNCTIONS_DENO"),
    port,
    env: {
      ...platformEnvironment({
        apiUrl: setting("TEST_API_URL"),
        dbUrl: setting("TEST_DATABASE_URL"),
        keys: await localKeys(),
      }),
      ...functionEnvironment(env),
      ...env,
    },
  });
  if (spec === undefined) throw new Error("There is no function to serve");
  const service = createService(spec, {
    onLog: ({ text }) => lines.push(text),
    onProcess: () => Promise.resolve(),
    onUnexpectedEnd: (text) => lines.push(text),
  });
  await service.start();

  return {
    url: `http://127.0.0.1:${port}/billing-webhook`,
    output: () => lines.join("\n"),
    logged: async (fits) => {
      const found = () =>
        lines.map(parseLine).find((line) => line && fits(line));
      await waitUntil(() => found() !== undefined, { timeout: LOGGED_WITHIN });
      const line = found();
      if (!line) {
        throw new Error(`No such line in the log:\n${lines.join("\n")}`);
      }
      return line;
    },
    [Symbol.asyncDispose]: service.stop,
  };
}

function parseLine(text: string): LogLine | undefined {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
