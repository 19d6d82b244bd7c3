/**
 * From the start of a process to its first 200, beside a server of one line.
 *
 * @module
 */
import { createCommand } from "../scripts/common/create_command.ts";
import { platformOptions } from "../scripts/local_stack/serve_functions.ts";
import { signatureHeaders } from "../scripts/common/sign.ts";
import { freePort } from "../tests/support/free_port.ts";
import { BARE_SERVER, RECEIVER } from "./names.ts";
import { type Spread, spread } from "./statistics.ts";

const ROUNDS = 15;
/** The local stack's own is refused, as this is not one. */
const SECRET = "whsec_benchmark_0123456789abcdef";
const ENTRIES = {
  [BARE_SERVER]: "bench/bare_server.ts",
  [RECEIVER]: "supabase/functions/billing-webhook/index.ts",
};

/**
 * Milliseconds, by what is started.
 *
 * @param denoPath The Deno that serves, as the platform does: by the import map.
 */
export async function measureColdStart(
  denoPath: string,
): Promise<Record<string, Spread>> {
  const times = new Map<string, number[]>();
  for (let round = -1; round < ROUNDS; round++) {
    for (const [name, entry] of Object.entries(ENTRIES)) {
      const time = await startOnce(denoPath, entry);
      if (round < 0) continue; // the first fills the caches
      times.set(name, [...times.get(name) ?? [], time]);
    }
  }
  return Object.fromEntries(
    [...times].map(([name, values]) => [name, spread(values)]),
  );
}

async function startOnce(denoPath: string, entry: string): Promise<number> {
  const port = freePort();
  // A type that is not handled: 200 without a database.
  const body = JSON.stringify({ id: "evt_1", type: "ping" });
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
      SUPABASE_URL: "http://127.0.0.1:9",
      SUPABASE_SERVICE_ROLE_KEY: "unused",
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
