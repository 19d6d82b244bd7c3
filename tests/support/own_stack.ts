import postgres from "postgres";
import {
  type Environment,
  functionEnvironment,
} from "../../scripts/common/environment.ts";
import type { Stack } from "../../scripts/local_stack/stack.ts";
import { startStack } from "../../scripts/local_stack/stack.ts";
import { copyStackTemplate } from "./stack_template.ts";
import { setting } from "./test_environment.ts";

/** A local stack that only one test uses. */
export interface OwnStack extends AsyncDisposable {
  readonly stack: Stack;
  readonly sql: postgres.Sql;
  /** The lines that its services have written so far. */
  readonly log: readonly string[];
}

/**
 * Starts a stack on free ports, with empty tables.
 *
 * @param options.env For its functions, on top of the local settings.
 * @param options.fsync Whether Postgres survives a kill; slower.
 */
export async function startOwnStack(
  { env = {}, fsync = false }: { env?: Environment; fsync?: boolean } = {},
): Promise<OwnStack> {
  await using opened = new AsyncDisposableStack();
  const dataDir = await Deno.makeTempDir();
  opened.defer(() => Deno.remove(dataDir, { recursive: true }));
  await copyStackTemplate(setting("TEST_STACK_TEMPLATE"), dataDir);
  const log: string[] = [];
  const stack = opened.use(
    await startStack({
      dataDir,
      denoPath: setting("TEST_FUNCTIONS_DENO"),
      env: { ...functionEnvironment({}), ...env },
      fsync,
      onLog: (line) => log.push(line),
    }),
  );
  const sql = postgres(stack.dbUrl, { max: 1, onnotice() {} });
  opened.defer(() => sql.end());
  const owned = opened.move();
  return {
    stack,
    sql,
    log,
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}
