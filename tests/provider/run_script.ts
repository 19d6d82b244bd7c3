/**
 * The commands as people run them, in a process of their own.
 *
 * @module
 */
import { createCommand } from "../../scripts/stack/create_command.ts";
import { setting } from "../support/test_environment.ts";
import { TEST_API_KEY } from "./provider_api.ts";

/** What came of a command. */
export interface Result {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

/** A command that runs. */
export interface RunningScript {
  readonly result: Promise<Result>;
  kill(signal: Deno.Signal): void;
}

/** Starts `import` or `reconcile` against the stack under test. */
export function startScript(
  name: "import" | "reconcile",
  { args, env = {} }: { args: string[]; env?: Record<string, string> },
): RunningScript {
  const script = new URL(`../../scripts/${name}.ts`, import.meta.url).href;
  const process = createCommand(Deno.execPath(), {
    args: ["run", "-A", "--no-check", script, ...args],
    stdout: "piped",
    stderr: "piped",
    env: {
      STRIPE_API_KEY: TEST_API_KEY,
      SUPABASE_URL: setting("TEST_API_URL"),
      SUPABASE_SECRET_KEY: "",
      // Set, so that supabase/functions/.env does not matter.
      UNMAPPED_SUBSCRIPTIONS: "fail",
      ...env,
    },
  }).spawn();
  const decoder = new TextDecoder();
  return {
    result: process.output().then(({ code, stdout, stderr }) => ({
      code,
      out: decoder.decode(stdout),
      err: decoder.decode(stderr),
    })),
    kill: (signal) => process.kill(signal),
  };
}

/** Runs one to its end. */
export function runScript(
  name: "import" | "reconcile",
  options: { args: string[]; env?: Record<string, string> },
): Promise<Result> {
  return startScript(name, options).result;
}
