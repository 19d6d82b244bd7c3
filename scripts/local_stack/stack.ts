import type { LocalKeys } from "../common/keys.ts";
import type { DatabaseUrls } from "./databases.ts";
import type { Reload } from "./function_group.ts";
import type { StackPorts } from "./ports.ts";
import type { ServeOptions } from "./serve_functions.ts";
import type { Service } from "./service.ts";

/** A stack that runs. */
export interface Stack extends AsyncDisposable {
  readonly ports: StackPorts;
  readonly urls: {
    /** The gateway. */
    readonly api: string;
    readonly rest: string;
    /** The functions behind the gateway. */
    readonly webhook: string;
    readonly worker: string;
    /** The functions' own processes, without the gateway. */
    readonly webhookProcess: string;
    readonly workerProcess: string;
  };
  readonly keys: LocalKeys;
  /** The database, for the role `postgres`. */
  readonly dbUrl: string;
  /** The database, for the superuser. */
  readonly adminUrl: string;
  /** The folder with Postgres's `bin`, `lib` and `share`. */
  readonly postgresFolder: string;
  /** For fault tests, which kill it and start it again. */
  readonly postgres: Service;
  readonly postgrest: Service;
  /** Stops the functions and serves them again, with other options. */
  readonly restartFunctions: (changes?: Partial<ServeOptions>) => Promise<void>;
  /**
   * Serves the functions' code as it is now, with these settings instead of
   * those before. No request is cut off.
   *
   * @throws {Error} if it does not start; the old code goes on
   */
  readonly reloadFunctions: (
    options: Pick<Reload, "onServed" | "env">,
  ) => Promise<void>;
  /** Creates another database beside the first, with all migrations. */
  readonly createDatabase: (
    name: string,
    options?: { readonly sqlBefore?: string },
  ) => Promise<DatabaseUrls>;
  /**
   * Resolves with the reason if a part ends without being stopped. Functions
   * start again instead.
   */
  readonly failed: Promise<string>;
  /** Stops all parts, last started first. So does `await using`. */
  readonly stop: () => Promise<void>;
}
