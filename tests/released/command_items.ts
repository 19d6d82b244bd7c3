import {
  createCommand,
  toolEnvironment,
} from "../../scripts/common/create_command.ts";
import { REPOSITORY } from "../../scripts/common/how_started.ts";

/** How a command ended. */
interface Ended {
  readonly code: number;
  readonly out: string;
}

/** Runs a command of the users, with nothing of this machine's settings. */
async function run(args: readonly string[], env = {}): Promise<Ended> {
  const [name = "", ...rest] = args;
  const { code, stdout } = await createCommand(Deno.execPath(), {
    args: [
      ...["run", "--quiet", "-A", "--no-check", `scripts/${name}.ts`],
      ...rest,
    ],
    clearEnv: true,
    env: { ...toolEnvironment(), ...env },
    cwd: REPOSITORY,
  }).output();
  return { code, out: new TextDecoder().decode(stdout) };
}

/** Returns what `--help` of each command lists, and its exit code. */
export async function commandItems(
  names: readonly string[],
): Promise<Record<string, string>> {
  const lists = await Promise.all(names.map(async (name) => {
    const { code, out } = await run([name, "--help"]);
    const [, usage = ""] = /^Usage: deno task (.+)$/m.exec(out) ?? [];
    const options = out.matchAll(/^ {2}(--[\w-]+)(?: (\S+))?/gm);
    const variables = out.match(/\b[A-Z]{3,}(?:_[A-Z]+)+\b/g) ?? [];
    return [
      [`command ${name}`, usage],
      [`exit code ${name} --help`, `${code}`],
      ...Array.from(
        options,
        ([, option, value]) => [
          `option ${name} ${option}`,
          value === undefined ? "alone" : "with a value",
        ],
      ),
      ...variables.map((variable) => [`variable ${name} ${variable}`, "read"]),
    ];
  }));
  return Object.fromEntries(lists.flat());
}

/** Returns the exit codes of commands that cannot do what they are asked for. */
export async function exitCodeItems(
  names: readonly string[],
): Promise<Record<string, string>> {
  const closed = "http://127.0.0.1:9";
  const empty = await Deno.makeTempDir();
  const nowhere = { BILLING_STACK_DATA: empty };
  const stripe = { ...nowhere, STRIPE_API_KEY: "sk_test_1" };
  const user = "11111111-1111-4111-8111-111111111111";
  try {
    const codes = await Promise.all([
      ...names.map((name) => codeOf([name, "--no-such-option"], nowhere)),
      codeOf(["add", "/no-such-folder", "--yes"], nowhere),
      codeOf(["doctor", "--url", closed], nowhere),
      codeOf(["import", "--stripe-url", closed], stripe),
      codeOf(["reconcile", "--stripe-url", closed], stripe),
      codeOf(["token", "--user", user], nowhere),
      codeOf(
        ["trigger", "customer.subscription.created", "--url", closed],
        nowhere,
      ),
    ]);
    return Object.fromEntries(codes);
  } finally {
    await Deno.remove(empty, { recursive: true });
  }
}

async function codeOf(
  args: readonly string[],
  env: Record<string, string>,
): Promise<readonly [string, string]> {
  return [`exit code ${args.join(" ")}`, `${(await run(args, env)).code}`];
}
