import type { Stack } from "../scripts/local_stack/stack.ts";
import { createMigratedDatabase } from "../tests/support/create_database.ts";
import { servePeer } from "./peer.ts";
import { peerTarget, type Target } from "./targets.ts";

/** Its entry in `bench/peers`, and its column for the time of the newest event. */
interface PeerSource {
  readonly entry: string;
  readonly column: string;
}

/** What this receiver is compared with, by name. */
const PEERS: Readonly<Record<string, PeerSource>> = {
  "@stripe/sync-engine, its edge function": {
    entry: "stripe_sync_engine_function",
    column: "_last_synced_at",
  },
  "@stripe/sync-engine, with a pool": {
    entry: "stripe_sync_engine_pool",
    column: "_last_synced_at",
  },
  "@supabase/stripe-sync-engine": {
    entry: "supabase_stripe_sync_engine",
    column: "last_synced_at",
  },
};

/** Their names, in the order of the tables. */
export const PEER_NAMES = Object.keys(PEERS);

/** Serves each peer on a database of its own, until they are disposed of. */
export async function servePeers(
  stack: Stack,
): Promise<AsyncDisposable & { readonly targets: readonly Target[] }> {
  await using started = new AsyncDisposableStack();
  const targets: Target[] = [];
  for (const [name, { entry, column }] of Object.entries(PEERS)) {
    const { url: databaseUrl } = await createMigratedDatabase(
      stack.ports.db,
      { name: entry },
    );
    const peer = started.use(
      await servePeer({
        entry: `bench/peers/${entry}.ts`,
        command: "run",
        env: { DATABASE_URL: databaseUrl },
      }),
    );
    targets.push(peerTarget(peer.port, {
      name,
      records: {
        databaseUrl,
        query: `select id, ${column} as at from stripe.subscriptions`,
      },
    }));
  }
  const owned = started.move();
  return { targets, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}
