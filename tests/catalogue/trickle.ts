import { assert, assertEquals } from "@std/assert";
import { startReceiver } from "../support/receiver.ts";
import { slowRequest } from "../support/raw_request.ts";
import { assertDiscreet } from "./outcome.ts";
import { gatewayTo } from "../support/receiver_gateway.ts";

/** Requests that are under way beside other tests: each takes ten seconds. */
export interface Trickle {
  /**
   * The statuses: of the receiver, of it for chunks, of it for no byte at all,
   * and by the gateway.
   */
  readonly statuses: Promise<number[]>;
  /** Passes if the receiver's log says why it refused them, and when. */
  assertLogged(): Promise<void>;
}

/** Sends bodies that trickle to a receiver of their own. */
export async function startTrickle(): Promise<Trickle & AsyncDisposable> {
  const receiver = await startReceiver();
  const gateway = await gatewayTo(receiver);
  const statuses = Promise.all([
    slowRequest(receiver.url),
    slowRequest(receiver.url, { isChunked: true }),
    slowRequest(receiver.url, { isSilent: true }),
    slowRequest(gateway.url),
  ]);
  // The test that awaits it reports an error.
  statuses.catch(() => {});
  return {
    statuses,
    assertLogged: async () => {
      await receiver.logged(({ code }) => code === "body_too_slow");
      const lines = receiver.output().split("\n")
        .filter((line) => line.includes("body_too_slow"));
      assertEquals(lines.length, 4);
      for (const line of lines) {
        const { status, duration_ms } = JSON.parse(line);
        assertEquals(status, 408);
        assert(
          duration_ms > 9_500 && duration_ms < 20_000,
          `refused after ${duration_ms} ms`,
        );
      }
      assertDiscreet(receiver.output());
    },
    [Symbol.asyncDispose]: async () => {
      await gateway[Symbol.asyncDispose]();
      await receiver[Symbol.asyncDispose]();
    },
  };
}
