import type { DatabaseUrls } from "./databases.ts";
import type { Environment } from "../common/environment.ts";
import type { LocalKeys } from "../common/keys.ts";
import type { StackPorts } from "./ports.ts";
import type { ServeOptions } from "./serve_functions.ts";
import type { Service, ServiceLine } from "./service.ts";

/** How to start a stack. */
export interface StackOptions {
  /** The state folder. It is created if it is missing, and kept. */
  readonly dataDir: string;
  /** 0 or undefined for any free port. */
  readonly ports?: Partial<StackPorts>;
  /** The functions' settings, which win over those of the platform. */
  readonly env?: Environment;
  /** The Deno that serves the functions; by default, this one. */
  readonly denoPath?: string;
  /** False to start without the functions. */
  readonly functions?: boolean;
  /** False if the data need not survive a power failure, as in tests. */
  readonly fsync?: boolean;
  /** Once aborted, everything is stopped, and the start fails. */
  readonly signal?: AbortSignal;
  /** Called after each step with a line about it. */
  readonly onProgress?: (text: string) => void;
  /** Called with each line that a part prints: webhook, worker, ... */
  readonly onLog?: (line: ServiceLine) => void;
}

/** A stack that runs. */
export interface Stack extends AsyncDisposable {
  readonly ports: StackPorts;
  readonly urls: StackUrls;
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
  /** Creates another database beside the first, with all migrations. */
  readonly createDatabase: (
    name: string,
    options?: { readonly sqlBefore?: string },
  ) => Promise<DatabaseUrls>;
  /** Resolves with the reason if a part ends without being stopped. */
  readonly failed: Promise<string>;
  /** Stops all parts, last started first. So does `await using`. */
  readonly stop: () => Promise<void>;
}

/** The URLs of a stack. */
export interface StackUrls {
  /** The gateway. */
  readonly api: string;
  readonly rest: string;
  /** The functions behind the gateway. */
  readonly webhook: string;
  readonly worker: string;
  /** The functions' own processes, without the gateway. */
  readonly webhookProcess: string;
  readonly workerProcess: string;
}
