/** Runs the commands as users do, each in a process of its own. */
import { createCommand } from "../../scripts/common/processes.ts";
import { REPOSITORY } from "../../scripts/common/environment.ts";
import { setting } from "./test_environment.ts";

type Variables = Readonly<Record<string, string>>;

export const TEST_API_KEY = "sk_test_stand_in";

export function command(
  name: string,
  args: readonly string[],
  env: Variables = {},
): Deno.Command {
  return createCommand(Deno.execPath(), {
    // Without Deno's own lines about downloads.
    args: ["run", "--quiet", "-A", "--no-check", `scripts/${name}.ts`, ...args],
    cwd: REPOSITORY,
    env: {
      NO_COLOR: "1",
      BILLING_STACK_DATA: "/nowhere",
      SUPABASE_URL: "",
      SUPABASE_SECRET_KEY: "",
      SUPABASE_DB_URL: "",
      ...env,
    },
    stdin: "null",
    stdout: "piped",
    stderr: "piped",
  });
}

export async function runCommand(...of: Parameters<typeof command>) {
  const { code, stdout, stderr } = await command(...of).output();
  const text = (bytes: BufferSource) => new TextDecoder().decode(bytes);
  return { code, out: text(stdout), err: text(stderr) };
}

export function runScript(
  name: "import" | "reconcile" | "rehearse",
  { args, env = {} }: { args: string[]; env?: Variables },
) {
  return runCommand(name, args, {
    STRIPE_API_KEY: TEST_API_KEY,
    SUPABASE_URL: setting("TEST_API_URL"),
    // Set, so that supabase/functions/.env does not matter.
    UNMAPPED_SUBSCRIPTIONS: "fail",
    NOTIFY_ONCE_PER_INVOICE: "false",
    PLAN_ITEM: "first",
    ...env,
  });
}
