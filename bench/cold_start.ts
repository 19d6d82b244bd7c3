/**
 * From the start of a process to its first 200, beside a server of one line: of an
 * event that is ignored, and of one that is applied.
 */
import { subscriptionEvent } from "../scripts/events/subscription_event.ts";
import { createCommand } from "../scripts/common/create_command.ts";
import { platformOptions } from "../scripts/local_stack/functions.ts";
import { signatureHeaders } from "../scripts/common/sign.ts";
import { freePort } from "../tests/support/machine.ts";
import { show, type Spread, spread, table } from "./measure.ts";

const ROUNDS = 31;
/** Not the local stack's own: that is refused elsewhere. */
const SECRET = "whsec_benchmark_0123456789abcdef";
const WEBHOOK = "supabase/functions/billing-webhook/index.ts";

/** What is started, and what it gets first. */
interface Start {
  readonly entry: string;
  readonly event: () => object;
}

const BARE_SERVER = "bare server";

const STARTS: Readonly<Record<string, Start>> = {
  [BARE_SERVER]: { entry: "bench/bare_server.ts", event: ignored },
  "this receiver": { entry: WEBHOOK, event: ignored },
  "this receiver, an event that it applies": {
    entry: WEBHOOK,
    event: () => subscriptionEvent("customer.subscription.updated"),
  },
};

/** A type that is not handled: 200 without a database. */
function ignored(): object {
  return { id: "evt_1", type: "ping" };
}

/**
 * Milliseconds, by what is started.
 *
 * @param denoPath The Deno that serves, as the platform does: by the import map.
 */
export async function measureColdStart(
  denoPath: string,
): Promise<Record<string, Spread>> {
  const times = new Map<string, number[]>();
  await using api = answerAtOnce();
  const apiUrl = `http://127.0.0.1:${api.addr.port}`;
  for (let round = -1; round < ROUNDS; round++) {
    for (const [name, start] of Object.entries(STARTS)) {
      const time = await startOnce(denoPath, { ...start, apiUrl });
      if (round < 0) continue; // the first fills the caches
      times.set(name, [...times.get(name) ?? [], time]);
    }
  }
  return Object.fromEntries(
    [...times].map(([name, values]) => [name, spread(values)]),
  );
}

/** Returns the results, by version of Deno, as Markdown. */
export function coldStartSection(
  results: Readonly<Record<string, Record<string, Spread>>>,
): string {
  return `## Cold start: process start to the first 200

The first event is one that the receiver ignores, if the table does not say that
it applies it. A stand-in for the database's API answers at once.

${
    table(
      ["What", "Deno", "Milliseconds", "To a bare server"],
      Object.entries(results).flatMap(([version, times]) =>
        Object.entries(times).map(([name, time]) => [
          name,
          version,
          show(time, 1),
          show(time.median / times[BARE_SERVER]!.median, 2),
        ])
      ),
    )
  }`;
}

/** Serves what the database's API says of one event that is applied. */
function answerAtOnce(): Deno.HttpServer<Deno.NetAddr> {
  return Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen() {} },
    () => Response.json([{ place: 1, outcome: "applied" }]),
  );
}

async function startOnce(
  denoPath: string,
  { entry, event, apiUrl }: Start & { readonly apiUrl: string },
): Promise<number> {
  const port = freePort();
  const body = JSON.stringify(event());
  const headers = await signatureHeaders({
    scheme: "stripe",
    header: "provider-a-signature",
    secret: SECRET,
    body,
  });
  const began = performance.now();
  const child = createCommand(denoPath, {
    args: [
      ...["serve", "--quiet", "--no-prompt", "--allow-net", "--allow-env"],
      ...platformOptions("billing-webhook"),
      ...["--host", "127.0.0.1", "--port", String(port), entry],
    ],
    env: {
      SUPABASE_URL: apiUrl,
      SUPABASE_SERVICE_ROLE_KEY: "any",
      PROVIDER_A_SIGNING_SECRET: SECRET,
    },
    stdout: "null",
    stderr: "null",
  }).spawn();
  try {
    const url = `http://127.0.0.1:${port}/billing-webhook`;
    while (!await answersOk(url, { method: "POST", headers, body }));
    return performance.now() - began;
  } finally {
    child.kill("SIGKILL");
    await child.status;
  }
}

async function answersOk(url: string, init: RequestInit): Promise<boolean> {
  try {
    const response = await fetch(url, init);
    await response.body?.cancel();
    if (response.status === 200) return true;
    throw new Error(`Cannot measure: ${url} answers ${response.status}`);
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    return false; // nothing listens yet
  }
}
