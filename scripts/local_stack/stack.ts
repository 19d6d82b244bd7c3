import type { DatabaseUrls } from "./databases.ts";
import type { Environment } from "../common/environment.ts";
import type { LocalKeys } from "../common/keys.ts";
import type { StackPorts } from "./ports.ts";
import type { ServeOptions } from "./serve_functions.ts";
import type { Service } from "./service.ts";

/** How to start a stack. */
export type StackOptions = {
  /** The state folder. It is made where it is missing, and kept. */
  dataDir: string;
  /** 0 or nothing for any free port. */
  ports?: Partial<StackPorts>;
  /** What the functions get; it wins over the platform's own names. */
  env?: Environment;
  /** The Deno that serves the functions; this one unless it is given. */
  denoPath?: string;
  /** False leaves the functions out. */
  functions?: boolean;
  /** False where the data need not survive a power cut: in tests. */
  fsync?: boolean;
  /** Once aborted, what was started is stopped, and the start fails. */
  signal?: AbortSignal;
  /** Is told each step when it is done, in words. */
  onProgress?: (text: string) => void;
  /** Is told each line that a part prints: webhook, worker, Postgres, ... */
  onLog?: (line: { source: string; text: string }) => void;
};

/** A stack that runs. */
export type Stack = AsyncDisposable & {
  ports: StackPorts;
  urls: {
    /** The gateway. */
    api: string;
    rest: string;
    /** The webhook as the platform shows it. */
    webhook: string;
    /** The worker likewise. */
    worker: string;
    /** The functions' own processes, beside the gateway. */
    webhookProcess: string;
    workerProcess: string;
  };
  keys: LocalKeys;
  /** The database, for the role `postgres`; and for the superuser. */
  dbUrl: string;
  adminUrl: string;
  /** The folder with Postgres's `bin`, `lib` and `share`. */
  postgresFolder: string;
  /** For fault tests: each can be killed and started again. */
  postgres: Service;
  postgrest: Service;
  /** Serves the functions anew, with what is given changed. */
  restartFunctions: (changes?: Partial<ServeOptions>) => Promise<void>;
  /** Makes another database beside the first, with all migrations applied. */
  createDatabase: (
    name: string,
    options?: { sqlBefore?: string },
  ) => Promise<DatabaseUrls>;
  /** Settled with the reason, when a part ends that nobody has stopped. */
  failed: Promise<string>;
  /** Stops all, last started first. So does `await using`. */
  stop: () => Promise<void>;
};
