/**
 * Runs the commands as users do, each in a process of its own.
 *
 * @module
 */
import { spawnGroup } from "../../scripts/local_stack/tools.ts";
import { setting } from "./test_environment.ts";

/** The key that the stand-in for Stripe's API expects. */
export const TEST_API_KEY = "sk_test_stand_in";

/** The result of a command. */
export interface Result {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

/** A running command. */
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
  const { child, ended } = spawnGroup({
    command: Deno.execPath(),
    // Without Deno's own lines about downloads.
    args: ["run", "--quiet", "-A", "--no-check", script, ...args],
    options: {
      stdout: "piped",
      stderr: "piped",
      env: {
        STRIPE_API_KEY: TEST_API_KEY,
        SUPABASE_URL: setting("TEST_API_URL"),
        SUPABASE_SECRET_KEY: "",
        // Set, so that supabase/functions/.env does not matter.
        UNMAPPED_SUBSCRIPTIONS: "fail",
        NOTIFY_ONCE_PER_INVOICE: "false",
        ...env,
      },
    },
  });
  async function finish() {
    const [{ code }, out, err] = await Promise.all([
      ended,
      new Response(child.stdout).text(),
      new Response(child.stderr).text(),
    ]);
    return { code, out, err };
  }
  return { result: finish(), kill: (signal) => child.kill(signal) };
}

/** Runs a command to its end. */
export function runScript(
  name: "import" | "reconcile",
  options: { args: string[]; env?: Record<string, string> },
): Promise<Result> {
  return startScript(name, options).result;
}
