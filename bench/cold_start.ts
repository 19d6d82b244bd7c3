/**
 * Measures the time from the start of a process to its first 200, for an event that is
 * ignored and for one that is applied, compared with a minimal server.
 */
import { BUILT_OPTIONS, builtFile } from "../scripts/common/built.ts";
import { signatureHeaders } from "../scripts/common/sign.ts";
import {
  EDGE_DENO_VERSION,
  edgeDenoPath,
  run,
} from "../scripts/dev/downloads.ts";
import { subscriptionEvent } from "../scripts/events/subscription_event.ts";
import type { Stack } from "../scripts/local_stack/stack.ts";
import { toolEnvironment } from "../scripts/local_stack/tools.ts";
import { freePort } from "../tests/support/machine.ts";
import { median, type Options, show, spread, table } from "./measure.ts";
import { ending } from "./servers.ts";

/** Not the local stack's secret, which the receiver refuses elsewhere. */
const SECRET = "whsec_benchmark_0123456789abcdef";

/** Without certificates of this machine, which the first call of `fetch` would read. */
const ENVIRONMENT = Object.fromEntries(
  Object.entries(toolEnvironment()).filter(([name]) => !/CERT|TLS/.test(name)),
);

/** The type is not handled, so the answer is 200 without a database call. */
const IGNORED = { id: "evt_1", type: "ping" };
const APPLIED = subscriptionEvent("customer.subscription.updated");

const BARE = { entry: "bench/bare_server.ts", options: BUILT_OPTIONS };
/** What is deployed. */
const BUILT = { entry: builtFile("billing-webhook"), options: BUILT_OPTIONS };
const FOLDER = "supabase/functions/billing-webhook";
const SOURCES = {
  entry: `${FOLDER}/index.ts`,
  options: [
    "--no-config",
    "--no-lock",
    "--node-modules-dir=none",
    `--import-map=${FOLDER}/deno.json`,
  ],
};

/** The processes to start, each with its first event. */
const STARTS = [
  { title: "bare server", ...BARE, event: IGNORED },
  { title: "built file, ignored", ...BUILT, event: IGNORED },
  { title: "built file, applied", ...BUILT, event: APPLIED },
  { title: "sources, ignored", ...SOURCES, event: IGNORED },
  { title: "sources, applied", ...SOURCES, event: APPLIED },
];

/** Measures with this Deno, and with the platform's version. */
export async function coldStart(
  _stack: Stack,
  { rounds }: Options,
): Promise<string> {
  await using api = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen() {} },
    () => Response.json([{ place: 1, outcome: "applied" }]),
  );
  const apiUrl = `http://127.0.0.1:${api.addr.port}`;

  const rows: string[][] = [];
  for (const denoPath of [Deno.execPath(), await edgeDenoPath()]) {
    await run(denoPath, ["cache", ...SOURCES.options, SOURCES.entry]);

    const times = STARTS.map(() => [] as number[]);
    // A round is six starts. The first start only fills the caches, and is not counted.
    for (let round = 0; round <= rounds * 6; round++) {
      for (const [i, start] of STARTS.entries()) {
        const time = await startOnce(denoPath, { ...start, apiUrl });
        if (round > 0) times[i]!.push(time);
      }
    }

    rows.push(...STARTS.map(({ title }, i) => [
      title,
      denoPath === Deno.execPath() ? Deno.version.deno : EDGE_DENO_VERSION,
      show(spread(times[i]!)),
      show(median(times[i]!) / median(times[0]!), 2),
    ]));
  }

  return `
Milliseconds from the start of a process to its first 200. A stand-in for the
database's API answers at once.

${table(["Server", "Deno", "Milliseconds", "Times the bare server"], rows)}`;
}

async function startOnce(
  denoPath: string,
  { entry, options, event, apiUrl }: typeof STARTS[number] & { apiUrl: string },
): Promise<number> {
  const port = await freePort();
  const body = JSON.stringify(event);
  const headers = await signatureHeaders({
    scheme: "stripe",
    header: "provider-a-signature",
    secret: SECRET,
    body,
  });

  const began = performance.now();
  const child = new Deno.Command(denoPath, {
    args: [
      "serve",
      "--quiet",
      "--no-prompt",
      "--allow-net",
      "--allow-env",
      ...options,
      "--host=127.0.0.1",
      `--port=${port}`,
      entry,
    ],
    env: {
      ...ENVIRONMENT,
      SUPABASE_URL: apiUrl,
      SUPABASE_SERVICE_ROLE_KEY: "any",
      PROVIDER_A_SIGNING_SECRET: SECRET,
    },
    clearEnv: true,
    stdout: "null",
    stderr: "null",
    signal: ending.signal,
  }).spawn();

  try {
    const url = `http://127.0.0.1:${port}/billing-webhook`;
    const limit = AbortSignal.timeout(60_000); // if the process does not listen
    let status = 0;
    while (status === 0) {
      limit.throwIfAborted();
      const answer = await fetch(url, { method: "POST", headers, body })
        .catch(() => undefined);
      await answer?.body?.cancel();
      status = answer?.status ?? 0;
    }

    if (status === 200) return performance.now() - began;
    throw new Error(`Cannot measure: ${entry} answers ${status}`);
  } finally {
    child.kill("SIGKILL");
    await child.status;
  }
}
