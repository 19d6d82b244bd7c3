/**
 * What events are sent to: this receiver, and what it is compared with, each in a
 * process and with a database of its own.
 */
import {
  type Environment,
  functionEnvironment,
  LOCAL_SIGNING_SECRETS,
} from "../scripts/common/environment.ts";
import { isListening } from "../scripts/common/loopback.ts";
import { spawnGroup } from "../scripts/local_stack/tools.ts";
import { waitUntil } from "../scripts/local_stack/wait_until.ts";
import { type Stack, startStack } from "../scripts/local_stack/stack.ts";
import { stripe } from "../supabase/functions/_shared/billing/formats/stripe.ts";
import { createMigratedDatabase } from "../tests/support/databases.ts";
import { freePort } from "../tests/support/machine.ts";
import {
  plainSignature,
  type RequestShape,
  stripeSignature,
} from "./requests.ts";

/** This receiver. */
export const RECEIVER = "this receiver";

/** The least that a receiver can do with an event. */
export const VERIFY_ONLY = "a function that only verifies and calls";

/** The secret that the receiver and the peers know. */
export const SECRET = LOCAL_SIGNING_SECRETS.PROVIDER_A_SIGNING_SECRET;

/** A server that takes events, and where its records are. */
export interface Target {
  readonly name: string;
  readonly port: number;
  readonly shape: RequestShape;
  /** More events per second than it can ever apply: so many are built. */
  readonly most: number;
  readonly databaseUrl: string;
  /** Selects the `id` of each subscription, and as `at` its newest event's time. */
  readonly query: string;
}

/** What this receiver is compared with, by name: its file in `bench/peers`. */
const PEERS: Readonly<
  Record<string, { file: string; column: string; env?: Environment }>
> = {
  "@stripe/sync-engine, its edge function": {
    file: "stripe_sync_engine",
    column: "_last_synced_at",
  },
  "@stripe/sync-engine, with a pool": {
    file: "stripe_sync_engine",
    column: "_last_synced_at",
    env: { POOL: "10" },
  },
  "@supabase/stripe-sync-engine": {
    file: "supabase_stripe_sync_engine",
    column: "last_synced_at",
  },
};

/** Their names, in the order of the tables. */
export const PEER_NAMES = Object.keys(PEERS);

/**
 * Runs against a stack of its own, on free ports, with fsync on, and removes its
 * data afterwards.
 */
export async function withStack<T>(
  use: (stack: Stack, folder: string) => Promise<T>,
): Promise<T> {
  // /tmp may be memory, and the server's user must get there.
  const folder = await Deno.makeTempDir({ dir: "/var/tmp", prefix: "bench-" });
  await Deno.chmod(folder, 0o755);
  try {
    await using stack = await startStack({
      dataDir: `${folder}/stack`,
      env: functionEnvironment({}),
    });
    return await use(stack, folder);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

/** This receiver, at its own port. */
export function receiverTarget(stack: Stack): Target {
  return {
    name: RECEIVER,
    port: stack.ports.webhook,
    shape: {
      path: "/billing-webhook",
      headers: stripeSignature("provider-a-signature", SECRET),
      body: (event) => JSON.stringify(event),
    },
    most: 12_000,
    databaseUrl: stack.dbUrl,
    query:
      "select id, billing.time_of(changed_as_of) as at from billing.subscriptions",
  };
}

/** Serves each peer, until they are disposed of. */
export async function servePeers(
  stack: Stack,
): Promise<AsyncDisposable & { readonly targets: readonly Target[] }> {
  await using started = new AsyncDisposableStack();
  const targets: Target[] = [];
  for (const [i, name] of PEER_NAMES.entries()) {
    const { file, column, env = {} } = PEERS[name]!;
    const { url: databaseUrl } = await createMigratedDatabase(
      stack.ports.db,
      { name: `peer_${i}` },
    );
    const peer = started.use(
      await serve(file, { ...env, DATABASE_URL: databaseUrl }),
    );
    targets.push({
      name,
      port: peer.port,
      shape: {
        path: "/",
        headers: stripeSignature("stripe-signature", SECRET),
        body: (event) => JSON.stringify(event),
      },
      most: 5_000,
      databaseUrl,
      query: `select id, ${column} as at from stripe.subscriptions`,
    });
  }
  const least = started.use(
    await serve("verify_only", {
      SUPABASE_URL: stack.urls.api,
      SUPABASE_SECRET_KEY: stack.keys.secret,
    }),
  );
  targets.push({
    ...receiverTarget(stack),
    name: VERIFY_ONLY,
    port: least.port,
    shape: {
      path: "/",
      headers: plainSignature("signature", SECRET),
      body: (event) => JSON.stringify({ events: [wireEvent(event)] }),
    },
    most: 5_000,
  });
  const owned = started.move();
  return { targets, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

/** Returns what the receiver makes of an event on its way to the database. */
export function wireEvent(event: object, place = 0): object {
  return {
    place: place + 1,
    ...stripe.read(event, { planItem: "first", isHandled: true }).data,
    provider: "a",
  };
}

/**
 * Serves a file with the packages of `bench/peers` alone. A call of Stripe's API
 * would fail.
 */
async function serve(
  file: string,
  env: Environment,
): Promise<AsyncDisposable & { readonly port: number }> {
  const port = freePort();
  const { child, ended } = spawnGroup({
    command: Deno.execPath(),
    args: [
      ...["run", "--quiet", "-A", "--deny-net=api.stripe.com", "--no-check"],
      ...["--no-config", "--no-lock"],
      ...["--import-map", "bench/peers/import_map.json"],
      `bench/peers/${file}.ts`,
    ],
    options: {
      env: {
        DENO_SERVE_ADDRESS: `tcp:127.0.0.1:${port}`,
        STRIPE_WEBHOOK_SECRET: SECRET,
        ...env,
      },
      stdout: "null",
      stderr: "inherit",
    },
  });
  // The first start downloads its packages.
  const isUp = await waitUntil(() => isListening(port), { timeoutMs: 120_000 });
  if (!isUp) throw new Error(`Cannot measure: ${file} does not start`);
  return {
    port,
    async [Symbol.asyncDispose]() {
      child.kill("SIGTERM");
      await ended;
    },
  };
}
