/**
 * What runs `reconcile` every day: the step of the workflow, as on GitHub, and
 * the line for cron, against the stack under test and a stand-in for Stripe's
 * API.
 */
import {
  assert,
  assertEquals,
  assertMatch,
  assertStringIncludes,
} from "@std/assert";
import { fileURLToPath } from "node:url";
import { createCommand } from "../../scripts/common/create_command.ts";
import { localKeys } from "../../scripts/local_stack/keys.ts";
import { TEST_API_KEY } from "../support/run_script.ts";
import { connect, emptyTables } from "../support/tables.ts";
import { setting } from "../support/test_environment.ts";
import { createStripeAccount, serveStripeApi } from "./stand_in.ts";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const WORKFLOW = await Deno.readTextFile(
  `${ROOT}.github/workflows/reconcile.yml`,
);
const PAGE = await Deno.readTextFile(`${ROOT}docs/reconcile.md`);

/** Runs this Deno, and leads `reconcile` to the stand-in. */
const NPX = `#!/bin/sh
if [ "$STRIPE_URL" = "" ]; then exit 1; fi
# cron starts commands in the user's home folder.
cd ${ROOT}
shift 2
if [ "$1" = task ]; then set -- "$@" --stripe-url "$STRIPE_URL"; fi
exec ${Deno.execPath()} "$@"
`;

const SECRETS = {
  STRIPE_API_KEY: TEST_API_KEY,
  SUPABASE_URL: setting("TEST_API_URL"),
  SUPABASE_SECRET_KEY: (await localKeys()).secret,
};

const sql = connect();
// reconcile compares all records, those of other tests included.
Deno.test.beforeEach(() => emptyTables(sql));
Deno.test.afterAll(() => sql.end());

/** The lines of the last step, without the indent of a part of it. */
function part(name: "env" | "run"): string[] {
  const step = WORKFLOW.slice(WORKFLOW.indexOf("- name: Compare"));
  const [, body] = new RegExp(`^ {8}${name}:.*\n((?: {10}.*\n)+)`, "m")
    .exec(step) ?? [];
  assert(body !== undefined, `The step has no ${name}`);
  return body.trimEnd().split("\n").map((line) => line.slice(10));
}

/** Runs a script with this `npx`; returns what it prints as well. */
async function run(
  shell: "sh" | "bash",
  script: string,
  env: Record<string, string>,
) {
  const folder = await Deno.makeTempDir({ prefix: "billing-webhook-step-" });
  const file = (name: string) => `${folder}/${name}`;
  try {
    await Deno.writeTextFile(file("npx"), NPX, { mode: 0o755 });
    await Deno.writeTextFile(file("script"), script);
    const { code, stdout, stderr } = await createCommand(shell, {
      args: ["-e", file("script")],
      cwd: folder,
      env: {
        RUNNER_TEMP: folder,
        GITHUB_STEP_SUMMARY: file("summary.md"),
        PATH: `${folder}:${Deno.env.get("PATH")}`,
        ...env,
      },
    }).output();
    const summary = await Deno.readTextFile(file("summary.md"))
      .catch(() => "");
    const decoder = new TextDecoder();
    const log = decoder.decode(stdout) + decoder.decode(stderr);
    return { code, summary, log };
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

/** Runs the step as GitHub does, with values for its expressions. */
async function runStep(STRIPE_URL: string, changes: Record<string, string>) {
  const values: Record<string, string> = {
    BILLING_RECONCILE: "test",
    ...SECRETS,
    ...changes,
  };
  const env = part("env").filter((line) => !line.startsWith("#"))
    .map((line) => {
      const [, name, key, or = ""] =
        /^(\w+): \$\{\{ \w+\.(\w+)(?: \|\| '(\w+)')? \}\}$/.exec(line) ?? [];
      assert(name !== undefined && key !== undefined, line);
      // Of a variable or secret that is not set, GitHub makes an empty text.
      return [name, values[key] || or];
    });
  return await run("bash", part("run").join("\n"), {
    ...Object.fromEntries(env),
    STRIPE_URL,
  });
}

Deno.test("the workflow is off as shipped, and its commands contain no expression", () => {
  const jobs = WORKFLOW.slice(WORKFLOW.indexOf("\njobs:\n") + 7);
  assertEquals(jobs.match(/^ {2}\w.*$|^ {4}if: .*$/gm), [
    "  reconcile:",
    "    if: vars.BILLING_RECONCILE != ''",
  ]);
  // GitHub would insert it as text.
  assert(!part("run").join("\n").includes("${{"));
});

Deno.test("the line for cron prints nothing if nothing differs, or else what differs", async () => {
  const [, command = ""] = /^ {4}43 4 \* \* \* (.+)$/m.exec(PAGE) ?? [];
  assertStringIncludes(command, "--mode live");
  const lines = Object.entries(SECRETS)
    .map(([name, value]) => `export ${name}=${value}`);
  const script = `echo '${lines.join("\n")}' >reconcile.env
    folder=$PWD; cd /; ${command}`
    .replace("/srv/billing", "$folder").replace("--mode live", "--mode test");
  for (
    const [count, printed] of [[0, /^$/], [1, /\n1 difference\./]] as const
  ) {
    await using api = serveStripeApi(createStripeAccount(count));
    const { log } = await run("sh", script, { STRIPE_URL: api.url });
    assert(printed.test(log), log);
  }
});

Deno.test("the workflow fails if something differs, or if it could not compare; IDs only in a private repository", async () => {
  await using none = serveStripeApi(createStripeAccount());
  const account = createStripeAccount(2);
  await using two = serveStripeApi(account);
  const differs = "::error::Something differs from Stripe.";
  const failed = (code: number) =>
    `::error::Could not compare (exit code ${code})`;
  const count = /\| `missing_here` \| 2 \|/;
  const unknown = /^Could not compare\./;
  const nowhere = { SUPABASE_URL: "http://127.0.0.1:1" };
  for (
    const [url, changes, code, reasons, summary] of [
      [none.url, {}, 0, ["No differences."], /^$/],
      [two.url, { repository_visibility: "private" }, 1, [differs], count],
      [two.url, { repository_visibility: "internal" }, 1, [differs], count],
      [two.url, nowhere, 3, [failed(3), "Cannot reach"], unknown],
      [two.url, { SUPABASE_URL: "" }, 2, [failed(2), "SUPABASE_URL"], unknown],
      [two.url, { BILLING_RECONCILE: "on" }, 2, [failed(2), "live"], unknown],
      // npx itself fails, with 1.
      ["", {}, 3, [failed(3)], unknown],
    ] as const
  ) {
    const run = await runStep(url, changes);
    assertEquals(run.code, code, run.log);
    for (const reason of reasons) assertStringIncludes(run.log, reason);
    assertMatch(run.summary, summary);
    const isPrivate = Object.values(changes).includes("private");
    for (const id of [...account.subscriptions.keys(), "acc_0", "acc_1"]) {
      assertEquals(run.summary.includes(id), isPrivate, id);
      assert(!run.log.includes(id), id);
    }
  }
});
