import { assert, assertEquals } from "@std/assert";
import { workerWaker } from "../../../supabase/functions/billing-webhook/wake_worker.ts";

const CONFIG = {
  supabaseUrl: "http://project.test",
  secretKey: "sb_secret_unit",
};

/** A worker that answers when it is told to, and the waker that calls it. */
function heldWorker() {
  const requests: Request[] = [];
  const answers: PromiseWithResolvers<Response>[] = [];
  const lines: unknown[][] = [];
  const wake = workerWaker(CONFIG, {
    fetch: (input, init) => {
      assert(init?.signal, "The call has no time limit");
      requests.push(new Request(input, { ...init, signal: null }));
      const answer = Promise.withResolvers<Response>();
      answers.push(answer);
      return answer.promise;
    },
    log: (...line) => lines.push(line),
  });

  /** Lets the oldest call that is under way end so. */
  async function end(how: (answer: PromiseWithResolvers<Response>) => void) {
    const answer = answers.shift();
    assert(answer !== undefined, "No call is under way");
    how(answer);
    await settled();
  }
  return { wake, requests, lines, end };
}

/** Lets everything that can go on by now go on. */
function settled(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, 0));
}

function answering(status: number) {
  return (answer: PromiseWithResolvers<Response>) =>
    answer.resolve(new Response("{}", { status }));
}

/** Runs with the runtime of the platform in place. */
async function withEdgeRuntime(
  use: (waited: Promise<unknown>[]) => Promise<void>,
): Promise<void> {
  const waited: Promise<unknown>[] = [];
  Object.assign(globalThis, {
    EdgeRuntime: {
      waitUntil: (promise: Promise<unknown>) => void waited.push(promise),
    },
  });
  try {
    await use(waited);
  } finally {
    Reflect.deleteProperty(globalThis, "EdgeRuntime");
  }
}

Deno.test("workerWaker() calls the worker with the secret key as apikey", async () => {
  const { wake, requests, lines, end } = heldWorker();
  wake();
  await settled();
  await end(answering(200));
  assertEquals(requests.length, 1);
  const [request] = requests;
  assertEquals(request?.method, "POST");
  assertEquals(
    request?.url,
    "http://project.test/functions/v1/billing-worker",
  );
  assertEquals(request?.headers.get("apikey"), "sb_secret_unit");
  assertEquals(request?.headers.get("authorization"), null);
  assertEquals(lines, []);
});

Deno.test("workerWaker() does not wait, and lets the answer to the provider go first", async () => {
  const { wake, requests, end } = heldWorker();
  assertEquals(wake(), undefined);
  await Promise.resolve();
  assertEquals(requests.length, 0);
  await settled();
  assertEquals(requests.length, 1);
  await end(answering(200));
});

Deno.test("workerWaker() makes one call of wakes that come together", async () => {
  const { wake, requests, end } = heldWorker();
  for (let i = 0; i < 50; i++) wake();
  await settled();
  assertEquals(requests.length, 1);
  await end(answering(200));
  assertEquals(requests.length, 1);
});

Deno.test("workerWaker() makes one more call of all wakes while one is under way", async () => {
  const { wake, requests, end } = heldWorker();
  wake();
  await settled();
  for (let i = 0; i < 50; i++) {
    wake();
    await settled();
  }
  assertEquals(requests.length, 1);
  await end(answering(200));
  assertEquals(requests.length, 2);
  await end(answering(200));
  assertEquals(requests.length, 2);

  wake();
  await settled();
  assertEquals(requests.length, 3);
  await end(answering(200));
  assertEquals(requests.length, 3);
});

for (
  const [what, how, says] of [
    ["is refused", answering(401), "the worker answered 401"],
    ["fails", answering(503), "the worker answered 503"],
    [
      "gets no answer",
      (answer: PromiseWithResolvers<Response>) =>
        answer.reject(new TypeError("connection refused")),
      "connection refused",
    ],
  ] as const
) {
  Deno.test(`workerWaker() logs a call that ${what}, and calls again when it is asked to`, async () => {
    const { wake, requests, lines, end } = heldWorker();
    wake();
    await settled();
    await end(how);
    assertEquals(lines, [[
      "warn",
      "worker not woken: its schedule will deliver",
      { error: says },
    ]]);
    assertEquals(requests.length, 1);
    wake();
    await settled();
    await end(answering(200));
    assertEquals(requests.length, 2);
    assertEquals(lines.length, 1);
  });
}

Deno.test("workerWaker() goes on to the wanted call after one that failed", async () => {
  const { wake, requests, end } = heldWorker();
  wake();
  await settled();
  wake();
  await end(answering(500));
  assertEquals(requests.length, 2);
  await end(answering(200));
});

Deno.test("workerWaker() has the platform wait until the last call is over", async () => {
  await withEdgeRuntime(async (waited) => {
    const { wake, end } = heldWorker();
    wake();
    assertEquals(waited.length, 1);
    await settled();
    wake();
    assertEquals(waited.length, 1);
    let isOver = false;
    waited[0]?.then(() => isOver = true);
    await end(answering(200));
    assertEquals(isOver, false);
    await end(answering(200));
    assertEquals(isOver, true);

    wake();
    assertEquals(waited.length, 2);
    await settled();
    await end(answering(200));
    await waited[1];
  });
});

Deno.test("workerWaker() passes the platform nothing that rejects", async () => {
  await withEdgeRuntime(async (waited) => {
    const { wake, end } = heldWorker();
    wake();
    await settled();
    await end((answer) => answer.reject(new TypeError("connection refused")));
    assertEquals(await waited[0], undefined);
  });
});
