/**
 * The servers that get the events: this receiver and the ones that it is compared with,
 * each in a process of its own.
 */
import { aborted } from "node:util";
import {
  type Environment,
  functionEnvironment,
  LOCAL_SIGNING_SECRETS,
  REPOSITORY,
} from "../scripts/common/environment.ts";
import { isListening } from "../scripts/common/loopback.ts";
import { withDatabase } from "../scripts/local_stack/databases.ts";
import {
  functionService,
  platformEnvironment,
} from "../scripts/local_stack/functions.ts";
import {
  createService,
  type ServiceSpec,
} from "../scripts/local_stack/service.ts";
import { type Stack, startStack } from "../scripts/local_stack/stack.ts";
import { toolEnvironment } from "../scripts/local_stack/tools.ts";
import { createDatabase } from "../tests/support/databases.ts";
import { freePort } from "../tests/support/machine.ts";

interface TargetSpec {
  readonly title: string;
  /** Its file in `peers`; by default, it is this receiver. */
  readonly file?: string;
  readonly env?: Environment;
  /** The events that it gets; by default, updates. */
  readonly stream?: "ignored";
  /** Selects the time of the newest event of each record, as `at`. */
  readonly query?: string;
}

/** A server that takes events, and where its records are. */
export interface Target extends TargetSpec {
  readonly ports: readonly number[];
  readonly databaseUrl: string;
}

/** The servers to measure, by the name that the command line takes. */
export const TARGETS = {
  receiver: {
    title: "this receiver",
    query:
      "select billing.time_of(changed_mark) as at from billing.subscriptions order by id",
  },
  byHand: {
    title: "function by hand",
    file: "by_hand",
    query:
      "select updated_at as at from public.subscriptions_by_hand order by id",
  },
  // It connects to Postgres directly, to a database of its own.
  engine: {
    title: "older engine",
    file: "supabase_stripe_sync_engine",
    query: "select last_synced_at as at from stripe.subscriptions order by id",
  },
  verify: { title: "only verifies", file: "verify_only" },
  bare: {
    title: "bare server",
    file: "verify_only",
    env: { STRIPE_WEBHOOK_SECRET: "" },
  },
  ignored: { title: "ignored type", stream: "ignored" },
} satisfies Record<string, TargetSpec>;

export type TargetName = keyof typeof TARGETS;

/** Aborts on Ctrl-C or a signal, which ends everything that runs. */
export const ending = new AbortController();
const services = new AsyncDisposableStack();

/**
 * Runs against a stack of its own, on free ports, with fsync on, and removes its
 * data afterwards.
 */
export async function withStack<T>(
  use: (stack: Stack) => Promise<T>,
): Promise<T> {
  // Not /tmp, which may be in memory. The database server's user must have access.
  const folder = await Deno.makeTempDir({ dir: "/var/tmp", prefix: "bench-" });
  await Deno.chmod(folder, 0o755);
  try {
    const env = functionEnvironment({});
    await using stack = await startStack({ dataDir: `${folder}/stack`, env });
    const interrupted = aborted(ending.signal, ending).then(async () => {
      await services.disposeAsync();
      throw new Error("Interrupted");
    });
    return await Promise.race([use(stack), interrupted]);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

/**
 * Serves a target until `started` is disposed of, in a number of processes. Without a
 * number, it is one process; of this receiver, the stack's own.
 */
export async function serveTarget(
  stack: Stack,
  { name, started, count }: {
    name: TargetName;
    started: AsyncDisposableStack;
    count?: number;
  },
): Promise<Target> {
  const spec: TargetSpec = TARGETS[name];
  const { file } = spec;
  if (!file && !count) return { ...receiverTarget(stack), ...spec };

  const databaseUrl = name === "engine"
    ? (await createDatabase(stack.ports.db, { name })).url
    : stack.dbUrl;
  if (name === "byHand") {
    await withDatabase(databaseUrl, (sql) => sql.unsafe(BY_HAND_SQL).simple());
  }

  const { urls: { api: apiUrl }, dbUrl, keys } = stack;
  const platform = platformEnvironment({ apiUrl, dbUrl, keys });
  const ports = await Array.fromAsync({ length: count ?? 1 }, freePort);
  for (const port of ports) {
    const service = file
      ? peerService(file, {
        port,
        env: { ...platform, DATABASE_URL: databaseUrl, ...spec.env },
      })
      : functionService("billing-webhook", {
        denoPath: Deno.execPath(),
        env: { ...platform, ...functionEnvironment({}) },
        port,
      });
    await startService(started, service);
  }
  return { ...spec, ports, databaseUrl };
}

function peerService(
  file: string,
  { port, env }: { port: number; env: Environment },
): ServiceSpec {
  return {
    name: file,
    command: Deno.execPath(),
    // Only the packages of `peers` are available, and calls of Stripe's API fail.
    args: [
      "run",
      "--quiet",
      "-A",
      "--deny-net=api.stripe.com",
      "--no-check",
      "--no-config",
      "--no-lock",
      "--import-map=bench/peers/import_map.json",
      `bench/peers/${file}.ts`,
    ],
    env: {
      ...toolEnvironment(),
      DENO_SERVE_ADDRESS: `tcp:127.0.0.1:${port}`,
      STRIPE_WEBHOOK_SECRET: LOCAL_SIGNING_SECRETS.PROVIDER_A_SIGNING_SECRET,
      ...env,
    },
    cwd: REPOSITORY,
    isReady: () => isListening(port),
    stopSignal: "SIGTERM",
  };
}

/** Returns this receiver as the stack serves it. */
export function receiverTarget({ ports, dbUrl }: Stack): Target {
  return { ...TARGETS.receiver, ports: [ports.webhook], databaseUrl: dbUrl };
}

async function startService(started: AsyncDisposableStack, spec: ServiceSpec) {
  const service = createService(spec, {
    onLog() {},
    onUnexpectedEnd: (text) => console.error(text),
  });
  services.defer(service.stop);
  await service.start(ending.signal);
  started.defer(service.stop);
}

/** The tables of the function by hand, in schema public. */
const BY_HAND_SQL = `
  create table if not exists public.customers_by_hand (
    id text primary key,
    account_id text,
    updated_at timestamptz not null
  );

  create table if not exists public.subscriptions_by_hand (
    id text primary key,
    customer_id text not null,
    account_id text,
    status text not null,
    price_id text,
    quantity integer,
    cancel_at_period_end boolean not null,
    cancel_at timestamptz,
    canceled_at timestamptz,
    current_period_end timestamptz,
    trial_end timestamptz,
    updated_at timestamptz not null
  );
  create index if not exists by_account on public.subscriptions_by_hand (account_id);
  grant all on public.customers_by_hand, public.subscriptions_by_hand to service_role`;
