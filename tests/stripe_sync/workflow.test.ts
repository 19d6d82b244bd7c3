/**
 * The workflow that runs `reconcile` every day: its step runs here as on GitHub,
 * against the stack under test and a stand-in for Stripe's API.
 *
 * @module
 */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { fileURLToPath } from "node:url";
import { localKeys } from "../../scripts/local_stack/keys.ts";
import { createCommand } from "../../scripts/common/create_command.ts";
import { TEST_API_KEY } from "../support/run_script.ts";
import { connect } from "../support/tables.ts";
import { setting } from "../support/test_environment.ts";
import { createStripeAccount, serveStripeApi } from "./stand_in.ts";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const WORKFLOW = await Deno.readTextFile(
  `${ROOT}.github/workflows/reconcile.yml`,
);

const PAGE = await Deno.readTextFile(`${ROOT}docs/reconcile.md`);

/** Runs this Deno, and leads `reconcile` to the stand-in. */
const NPX = `#!/bin/sh
if [ "$FAULT" = registry ]; then exit 1; fi
shift 2
if [ "$1" = task ]; then set -- "$@" --stripe-url "$STRIPE_URL"; fi
exec "$DENO" "$@"
`;

const sql = connect();
Deno.test.beforeEach(async () => {
  // reconcile compares all records, those of other tests included.
  await sql`
    truncate billing.subscriptions, billing.processed_events, billing.failed_events, billing.notifications`;
});
Deno.test.afterAll(() => sql.end());

/** The lines of the last step, without the indent of a part of it. */
function part(name: "env" | "run"): string[] {
  const step = WORKFLOW.slice(WORKFLOW.indexOf("- name: Compare"));
  const [, body] = new RegExp(`^ {8}${name}:.*\n((?: {10}.*\n)+)`, "m")
    .exec(step) ?? [];
  assert(body !== undefined, `The step has no ${name}`);
  return body.trimEnd().split("\n").map((line) => line.slice(10));
}

/** The step's environment, with GitHub's expressions replaced by values. */
function stepEnvironment(
  values: Readonly<Record<string, string>>,
): Record<string, string> {
  return Object.fromEntries(
    part("env").filter((line) => !line.startsWith("#")).map((line) => {
      const [, name, key, or = ""] =
        /^(\w+): \$\{\{ ([\w.]+)(?: \|\| '(\w+)')? \}\}$/.exec(line) ?? [];
      assert(name !== undefined && key !== undefined, line);
      // Of a variable or secret that is not set, GitHub makes an empty text.
      return [name, values[key] || or];
    }),
  );
}

/** Runs a shell in a folder with this `npx`; returns what it prints as well. */
async function runShell(
  args: readonly string[],
  { files, npx, ...options }: {
    files: Record<string, string>;
    npx: string;
    cwd: string;
    env: Record<string, string>;
  },
) {
  const folder = await Deno.makeTempDir({ prefix: "billing-webhook-step-" });
  const inFolder = (text: string) => text.replaceAll("FOLDER", folder);
  try {
    for (const [name, text] of Object.entries({ ...files, npx })) {
      await Deno.writeTextFile(`${folder}/${name}`, text, { mode: 0o755 });
    }
    const { code, stdout, stderr } = await createCommand(args[0] ?? "", {
      ...options,
      args: args.slice(1).map(inFolder),
      env: {
        RUNNER_TEMP: folder,
        GITHUB_STEP_SUMMARY: `${folder}/summary.md`,
        DENO: Deno.execPath(),
        PATH: `${folder}:${Deno.env.get("PATH")}`,
        ...options.env,
      },
    }).output();
    const summary = await Deno.readTextFile(`${folder}/summary.md`)
      .catch(() => "");
    const decoder = new TextDecoder();
    const log = decoder.decode(stdout) + decoder.decode(stderr);
    return { code, summary, log };
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

/** Runs the step as GitHub does: `bash -e`, with a file for the summary. */
async function runStep(
  stripeUrl: string,
  { fault = "", ...changes }: { fault?: string; [expression: string]: string } =
    {},
) {
  return await runShell(["bash", "-e", "FOLDER/step.sh"], {
    files: { "step.sh": part("run").join("\n") },
    npx: NPX,
    cwd: ROOT,
    env: {
      ...stepEnvironment({
        "vars.BILLING_RECONCILE": "test",
        "secrets.STRIPE_API_KEY": TEST_API_KEY,
        "secrets.SUPABASE_URL": setting("TEST_API_URL"),
        "secrets.SUPABASE_SECRET_KEY": (await localKeys()).secret,
        ...changes,
      }),
      STRIPE_URL: stripeUrl,
      FAULT: fault,
    },
  });
}

/** Runs the line for cron in docs/reconcile.md, in test mode; returns what it prints. */
async function runCronLine(stripeUrl: string): Promise<string> {
  const [, command = ""] = /^ {4}43 4 \* \* \* (.+)$/m.exec(PAGE) ?? [];
  assertStringIncludes(command, "--mode live");
  const inTest = command.replace("/srv/billing", "FOLDER")
    .replace("--mode live", "--mode test");
  const { log } = await runShell(["sh", "-c", inTest], {
    files: {
      "reconcile.env": `export STRIPE_API_KEY=${TEST_API_KEY}
export SUPABASE_URL=${setting("TEST_API_URL")}
export SUPABASE_SECRET_KEY=${(await localKeys()).secret}
`,
    },
    // cron starts commands in the user's home folder.
    npx: NPX.replace("shift 2", `cd ${ROOT}\nshift 2`),
    cwd: "/",
    env: { STRIPE_URL: stripeUrl },
  });
  return log;
}

Deno.test("the workflow is off as shipped, its commands contain no expression, and docs/reconcile.md names its settings", () => {
  const jobs = WORKFLOW.slice(WORKFLOW.indexOf("\njobs:\n") + 7);
  assertEquals(jobs.match(/^ {2}\w.*$|^ {4}if: .*$/gm), [
    "  reconcile:",
    "    if: vars.BILLING_RECONCILE != ''",
  ]);
  // GitHub would insert it as text.
  assert(!part("run").join("\n").includes("${{"));
  const names = [...WORKFLOW.matchAll(/\b(?:secrets|vars)\.(\w+)/g)]
    .map(([, name]) => name);
  assertEquals(new Set(names).size, 5);
  const section = PAGE.slice(
    PAGE.indexOf("### Switch it on"),
    PAGE.indexOf("### If it fails"),
  );
  for (const name of names) assertStringIncludes(section, `\`${name}`);
});

Deno.test("the line for cron prints nothing if nothing differs, or else what differs", async () => {
  await using same = await serveStripeApi(createStripeAccount());
  assertEquals(await runCronLine(same.url), "");
  await using other = await serveStripeApi(createStripeAccount(1));
  assertStringIncludes(await runCronLine(other.url), "\n1 difference.");
});

Deno.test("the workflow succeeds if nothing differs, else it fails with 1; IDs only in a private repository", async () => {
  await using none = await serveStripeApi(createStripeAccount());
  const same = await runStep(none.url);
  assertEquals([same.code, same.summary], [0, ""], same.log);
  assertStringIncludes(same.log, "No differences.");
  const account = createStripeAccount(2);
  await using api = await serveStripeApi(account);
  for (const visibility of ["private", "internal"]) {
    const { code, summary, log } = await runStep(api.url, {
      "github.repository_visibility": visibility,
    });
    assertEquals(code, 1, log);
    assertStringIncludes(log, "::error::Something differs from Stripe.");
    assertStringIncludes(summary, "| `missing_here` | 2 |");
    for (const id of [...account.subscriptions.keys(), "acc_0", "acc_1"]) {
      assertEquals(summary.includes(id), visibility === "private");
      assert(!log.includes(id), id);
    }
  }
});

Deno.test("the workflow fails with another code if it could not compare", async () => {
  const nowhere = { "secrets.SUPABASE_URL": "http://127.0.0.1:1" };
  await using api = await serveStripeApi(createStripeAccount(1));
  for (
    const [changes, code, reason] of [
      [nowhere, 3, "Cannot reach http://127.0.0.1:1"],
      [{ fault: "registry" }, 3, ""],
      [{ "secrets.SUPABASE_URL": "" }, 2, "SUPABASE_URL"],
      [{ "vars.BILLING_RECONCILE": "on" }, 2, "live"],
    ] as const
  ) {
    const run = await runStep(api.url, changes);
    assertEquals(run.code, code, run.log);
    const error = `::error::Could not compare (exit code ${code})`;
    assertStringIncludes(run.log, error);
    assertStringIncludes(run.log, reason);
    assertStringIncludes(run.summary, "Could not compare.");
  }
});
