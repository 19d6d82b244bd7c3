/** Runs the commands as users do, each in a process of its own. */
import { createCommand } from "../../scripts/common/create_command.ts";
import { setting } from "./test_environment.ts";

/** The key that the stand-in for Stripe's API expects. */
export const TEST_API_KEY = "sk_test_stand_in";

/** Starts `import` or `reconcile` against the stack under test. */
export function startScript(
  name: "import" | "reconcile",
  { args, env = {} }: { args: string[]; env?: Record<string, string> },
) {
  const script = new URL(`../../scripts/${name}.ts`, import.meta.url).href;
  const child = createCommand(Deno.execPath(), {
    // Without Deno's own lines about downloads.
    args: ["run", "--quiet", "-A", "--no-check", script, ...args],
    stdout: "piped",
    stderr: "piped",
    env: {
      STRIPE_API_KEY: TEST_API_KEY,
      SUPABASE_URL: setting("TEST_API_URL"),
      SUPABASE_SECRET_KEY: "",
      // Set, so that supabase/functions/.env does not matter.
      UNMAPPED_SUBSCRIPTIONS: "fail",
      NOTIFY_ONCE_PER_INVOICE: "false",
      PLAN_ITEM: "first",
      ...env,
    },
  }).spawn();
  async function finish() {
    const { code, stdout, stderr } = await child.output();
    const text = (bytes: BufferSource) => new TextDecoder().decode(bytes);
    return { code, out: text(stdout), err: text(stderr) };
  }
  return { result: finish() };
}

export const runScript = (...options: Parameters<typeof startScript>) =>
  startScript(...options).result;
