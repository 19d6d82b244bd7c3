/**
 * Runs the commands as users do, each in a process of its own.
 *
 * @module
 */
import { spawnGroup } from "../../scripts/local_stack/tools.ts";
import { setting } from "./test_environment.ts";

/** The key that the stand-in for Stripe's API expects. */
export const TEST_API_KEY = "sk_test_stand_in";

interface Result {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

/** Starts `import` or `reconcile` against the stack under test. */
export function startScript(
  name: "import" | "reconcile",
  { args, env = {} }: { args: string[]; env?: Record<string, string> },
) {
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
  async function finish(): Promise<Result> {
    const [{ code }, out, err] = await Promise.all([
      ended,
      new Response(child.stdout).text(),
      new Response(child.stderr).text(),
    ]);
    return { code, out, err };
  }
  return { result: finish() };
}

/** Runs a command to its end. */
export function runScript(
  ...options: Parameters<typeof startScript>
): Promise<Result> {
  return startScript(...options).result;
}
