import postgres from "postgres";
import { databaseUrls } from "../../local_stack/databases.ts";
import { startStack } from "../../local_stack/stack.ts";
import { NO_DOWNLOADS } from "./downloads.ts";
import type { Run } from "./named_runs.ts";
import { runStep, type StepResult } from "./run_step.ts";
import { emptyTables } from "../../../tests/support/tables.ts";
import {
  copyStackTemplate,
  LEGACY_DATABASE,
  makeStackTemplate,
} from "./stack_template.ts";

/** Options of every run. */
interface LaneOptions {
  readonly signal: AbortSignal;
  /** Whether other tests run at the same time. */
  readonly isBeside?: boolean;
}

/**
 * Runs what needs a stack, in lanes side by side, each with a stack of its own
 * on free ports. Whichever lane is done takes the next run.
 */
export async function runInLanes(
  runs: readonly Run[],
  { lanes, signal }: { lanes: number; signal: AbortSignal },
): Promise<StepResult[]> {
  await using opened = new AsyncDisposableStack();
  const template = await temporaryFolder(opened);
  await makeStackTemplate(template, signal);
  const queue = [...runs];
  const isBeside = lanes > 1;
  const running = Array.from(
    { length: lanes },
    () => runOnStack(queue, { template, isBeside, signal }),
  );
  return await allEnded(running);
}

/**
 * Returns the results of steps that run side by side. Each has to end, and to
 * clean up, even if another fails.
 */
export async function allEnded(
  steps: readonly Promise<StepResult | StepResult[]>[],
): Promise<StepResult[]> {
  await Promise.allSettled(steps);
  return (await Promise.all(steps)).flat();
}

/** Runs tests with `deno test`; `env` names the stack, if they need one. */
export function runTests(
  { name, files, filter, options = [] }: Run,
  { signal, env = {}, isBeside = false }: LaneOptions & {
    env?: Record<string, string>;
  },
): Promise<StepResult> {
  return runStep(name, {
    isBeside,
    signal,
    testsOf: files,
    args: [
      ...["test", "--allow-all", "--no-check", "--cached-only", ...options],
      ...(filter === undefined ? [] : ["--filter", filter]),
      ...files,
    ],
    env: { ...NO_DOWNLOADS, ...env },
  });
}

/** Takes what is to run out of a queue, and runs it against a stack of its own. */
async function runOnStack(
  queue: Run[],
  { template, signal, isBeside = false }: LaneOptions & { template: string },
): Promise<StepResult[]> {
  await using opened = new AsyncDisposableStack();
  const dataDir = await temporaryFolder(opened);
  await copyStackTemplate(template, dataDir);
  const stack = opened.use(
    await startStack({ dataDir, functions: false, fsync: false, signal }),
  );
  // Goes with it, whatever tests that are interrupted leave there.
  const temporary = `${dataDir}/tmp`;
  await Deno.mkdir(temporary);
  const results: StepResult[] = [];
  const sql = postgres(stack.dbUrl, { max: 1 });
  opened.defer(() => sql.end());
  for (let run = queue.shift(); run !== undefined; run = queue.shift()) {
    // SQL tests count on empty tables, and full ones make other tests slow.
    await emptyTables(sql);
    results.push(
      await runTests(run, {
        isBeside,
        signal,
        env: {
          TMPDIR: temporary,
          TEST_DATABASE_URL: stack.dbUrl,
          TEST_LEGACY_DATABASE_URL:
            databaseUrls(stack.ports.db, LEGACY_DATABASE).url,
          TEST_PG_SHARE_DIR: `${stack.postgresFolder}/share/postgresql`,
          TEST_API_URL: stack.urls.api,
          TEST_STACK_TEMPLATE: template,
          TEST_FUNCTIONS_DENO: run.denoPath ?? Deno.execPath(),
        },
      }),
    );
  }
  return results;
}

/** Makes a folder that goes with what it is opened in. */
export async function temporaryFolder(
  opened: AsyncDisposableStack,
): Promise<string> {
  const folder = await Deno.makeTempDir({ prefix: "billing-webhook-test-" });
  opened.defer(() => Deno.remove(folder, { recursive: true }));
  return folder;
}
