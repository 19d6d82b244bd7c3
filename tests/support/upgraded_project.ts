import postgres from "postgres";
import { localKeys } from "../../scripts/common/keys.ts";
import { createDatabase } from "../../scripts/local_stack/databases.ts";
import { startGateway } from "../../scripts/local_stack/gateway.ts";
import { putAlerts } from "./alert_states.ts";
import { migrate, migrationsSince } from "./migrate_part.ts";
import { FIRST_RELEASE, putPreviousData } from "./previous_version.ts";
import { startPostgrest } from "./start_postgrest.ts";
import { setting } from "./test_environment.ts";

/** A project that began with an earlier release, and was upgraded. */
export interface UpgradedProject<State> extends AsyncDisposable {
  readonly sql: postgres.Sql;
  /** The URL of its API. */
  readonly url: string;
  /** What `look` returned right before the upgrade, and right after it. */
  readonly before: State;
  readonly after: State;
}

/**
 * Makes a database of a release with rows in every state, and upgrades it.
 *
 * @param name The database's.
 * @param options.release By default the first one.
 */
export async function createUpgradedProject<State>(
  name: string,
  look: (sql: postgres.Sql) => Promise<State>,
  { release = FIRST_RELEASE }: { release?: string } = {},
): Promise<UpgradedProject<State>> {
  await using opened = new AsyncDisposableStack();
  const port = Number(new URL(setting("TEST_DATABASE_URL")).port);
  const { url } = await createDatabase(port, { name });
  const sql = postgres(url, { max: 1, onnotice() {} });
  opened.defer(() => sql.end());
  const [next] = await migrationsSince(release);
  await migrate(url, next === undefined ? {} : { before: next });
  await putPreviousData(sql);
  if (release !== FIRST_RELEASE) await putAlerts(sql);
  const before = await look(sql);
  await migrate(url);
  const after = await look(sql);

  const rest = opened.use(await startPostgrest(url));
  const gateway = startGateway(0, {
    targets: { rest: Number(new URL(rest.url).port) },
    keys: await localKeys(),
  });
  opened.defer(gateway.close);
  const owned = opened.move();
  return {
    sql,
    url: `http://127.0.0.1:${gateway.port}`,
    before,
    after,
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}
