/** What can happen to a call on its way to the database and back. */
export type Fault =
  | "dropped before sending"
  | "dropped after commit"
  | "answered 503"
  | "hung until the time limit"
  | "answered garbage after commit";

const FAULTS: readonly [fault: Fault, share: number][] = [
  ["dropped before sending", 0.08],
  ["dropped after commit", 0.08],
  ["answered 503", 0.05],
  ["answered garbage after commit", 0.05],
  // It costs a whole time limit each.
  ["hung until the time limit", 0.002],
];

/**
 * A fetch that fails now and then, as its random numbers say, and counts how.
 *
 * @param random Numbers from 0 up to 1.
 */
export function faultyFetch(
  random: () => number,
): { fetch: typeof globalThis.fetch; counts: Map<Fault, number> } {
  const counts = new Map<Fault, number>();

  async function fetch(
    input: RequestInfo | URL,
    init?: RequestInit,
  ): Promise<Response> {
    const fault = chooseFault(random());
    if (fault === undefined) return await globalThis.fetch(input, init);
    counts.set(fault, (counts.get(fault) ?? 0) + 1);
    switch (fault) {
      case "dropped before sending":
        throw new TypeError("error sending request: connection refused");
      case "dropped after commit":
        await discard(globalThis.fetch(input, init));
        throw new TypeError("error reading a body from connection");
      case "answered garbage after commit":
        await discard(globalThis.fetch(input, init));
        return new Response("<html>upstream error</html>", { status: 200 });
      case "answered 503":
        return new Response("no healthy upstream", { status: 503 });
      case "hung until the time limit":
        return await new Promise((_, reject) => {
          const { signal } = init ?? {};
          signal?.addEventListener("abort", () => reject(signal.reason));
        });
    }
  }

  return { fetch, counts };
}

function chooseFault(number: number): Fault | undefined {
  let sum = 0;
  return FAULTS.find(([, share]) => number < (sum += share))?.[0];
}

async function discard(response: Promise<Response>): Promise<void> {
  await (await response).body?.cancel();
}
