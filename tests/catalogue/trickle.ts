import { assert, assertEquals } from "@std/assert";
import { startReceiver } from "../support/receiver.ts";
import { slowRequest } from "../support/raw_request.ts";
import { assertDiscreet } from "./outcome.ts";
import { gatewayTo } from "../support/receiver_gateway.ts";

/** A request whose body trickles, and how it was answered. */
export interface Trickled {
  readonly status: number;
  /** Whether the server closed the connection after its answer. */
  readonly isClosed: boolean;
  /** In milliseconds. */
  readonly tookMs: number;
}

/** The answer to the request that sends no byte of its body. */
export const SILENT = 2;

/** Requests that are under way beside other tests: each takes ten seconds. */
export interface Trickle {
  /**
   * To the receiver, to it in chunks, to it with no byte at all, and by the
   * gateway.
   */
  readonly answers: Promise<Trickled[]>;
  /** Passes when the receiver said in its log why it refused them. */
  assertLogged(): Promise<void>;
}

/** Sends bodies that trickle to a receiver of their own. */
export async function startTrickle(): Promise<Trickle & AsyncDisposable> {
  const receiver = await startReceiver();
  const gateway = await gatewayTo(receiver);
  const started = Date.now();
  const timed = async (request: ReturnType<typeof slowRequest>) => ({
    ...await request,
    tookMs: Date.now() - started,
  });
  const answers = Promise.all([
    timed(slowRequest(receiver.url)),
    timed(slowRequest(receiver.url, { isChunked: true })),
    timed(slowRequest(receiver.url, { every: 60_000 })),
    timed(slowRequest(gateway.url)),
  ]);
  // The test that awaits it reports an error.
  answers.catch(() => {});
  return {
    answers,
    assertLogged: async () => {
      await receiver.logged(({ code }) => code === "body_too_slow");
      const lines = receiver.output().split("\n")
        .filter((line) => line.includes("body_too_slow"));
      assertEquals(lines.length, 4);
      assert(lines.every((line) => line.includes('"status":408')));
      assertDiscreet(receiver.output());
    },
    [Symbol.asyncDispose]: async () => {
      await gateway[Symbol.asyncDispose]();
      await receiver[Symbol.asyncDispose]();
    },
  };
}
