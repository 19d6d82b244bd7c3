/**
 * A function in a process of its own, against the stack under test, with the
 * environment that a test wants.
 *
 * @module
 */
import {
  type Environment,
  functionEnvironment,
} from "../../scripts/common/environment.ts";
import { localKeys } from "../../scripts/local_stack/keys.ts";
import {
  functionService,
  platformEnvironment,
} from "../../scripts/local_stack/functions.ts";
import { createService } from "../../scripts/local_stack/service.ts";
import { waitUntil } from "../../scripts/local_stack/wait_until.ts";
import { HANG_LIMIT_MS } from "./hang_limit.ts";
import { freePort } from "./free_port.ts";
import { setting } from "./test_environment.ts";

/** A line of a function's log. */
export type LogLine = Record<string, unknown> & { message: string };

/** A function that is served. */
export interface ServedFunction extends AsyncDisposable {
  /** Where it answers. */
  readonly url: string;
  /** All that it has written so far, as it was written. */
  output(): string;
  /** The first log line that fits, as soon as it is there. */
  logged(fits: (line: LogLine) => boolean): Promise<LogLine>;
  /** SIGKILL; it is gone when this resolves. */
  kill(): Promise<void>;
}

/**
 * Serves a function on a free port.
 *
 * @param name The function's folder.
 * @param options.env On top of what the platform gives and the local secrets.
 * @param options.unset Names of variables that are not set.
 * @throws {Error} If it does not start, with its output.
 */
export async function serveFunction(
  name: string,
  { env, unset = [] }: { env: Environment; unset?: readonly string[] },
): Promise<ServedFunction> {
  const lines: string[] = [];
  const port = freePort();
  const settings = Object.entries({
    ...platformEnvironment({
      apiUrl: setting("TEST_API_URL"),
      dbUrl: setting("TEST_DATABASE_URL"),
      keys: await localKeys(),
    }),
    ...functionEnvironment(env),
    ...env,
  });
  const spec = functionService(name, {
    denoPath: setting("TEST_FUNCTIONS_DENO"),
    port,
    env: Object.fromEntries(
      settings.filter(([setting]) => !unset.includes(setting)),
    ),
  });
  const service = createService(spec, {
    onLog: (line) => lines.push(line),
    onUnexpectedEnd: (text) => lines.push(text),
  });
  await service.start();

  return {
    url: `http://127.0.0.1:${port}/${name}`,
    output: () => lines.join("\n"),
    logged: async (fits) => {
      const found = () =>
        lines.map(parseLine).find((line) => line && fits(line));
      await waitUntil(() => found() !== undefined, {
        timeoutMs: HANG_LIMIT_MS,
      });
      const line = found();
      if (!line) {
        throw new Error(`No such line in the log:\n${lines.join("\n")}`);
      }
      return line;
    },
    kill: service.kill,
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
