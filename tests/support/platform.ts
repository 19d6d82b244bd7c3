import type { Environment } from "../../scripts/common/environment.ts";
import { startReceiver } from "./receiver.ts";
import type { ServedFunction } from "./serve_function.ts";

/** A receiver that gets new processes for changed settings, as on Supabase. */
export interface Platform extends AsyncDisposable {
  /**
   * Passes a delivery on to whichever process serves it.
   *
   * @param number While a change is under way, even ones meet the old process
   * and odd ones the new one.
   */
  pass<T>(
    deliver: (url: string) => Promise<T>,
    options: { number: number },
  ): Promise<T>;
  /**
   * Starts a process with other settings beside the one that serves; both serve
   * then, until `overlap` is over; the old one ends what it has begun, and goes.
   */
  change(
    env: Environment,
    options: { overlap: () => Promise<void> },
  ): Promise<void>;
}

interface Deployment {
  readonly receiver: ServedFunction;
  readonly underWay: Set<Promise<unknown>>;
}

/** Starts the receiver with its first settings. */
export async function startPlatform(env: Environment): Promise<Platform> {
  let serving = [await deploy(env)];
  const retiring: Promise<void>[] = [];

  return {
    pass: async (deliver, { number }) => {
      const { receiver, underWay } = serving[number % serving.length]!;
      const answer = deliver(receiver.url);
      underWay.add(answer);
      try {
        return await answer;
      } finally {
        underWay.delete(answer);
      }
    },
    change: async (changed, { overlap }) => {
      const old = serving;
      serving = [...old, await deploy(changed)];
      await overlap();
      serving = serving.slice(old.length);
      retiring.push(retire(old));
    },
    [Symbol.asyncDispose]: async () => {
      await Promise.all([...retiring, retire(serving)]);
    },
  };
}

async function deploy(env: Environment): Promise<Deployment> {
  return { receiver: await startReceiver({ env }), underWay: new Set() };
}

async function retire(deployments: readonly Deployment[]): Promise<void> {
  for (const { receiver, underWay } of deployments) {
    await Promise.allSettled(underWay);
    await receiver[Symbol.asyncDispose]();
  }
}
