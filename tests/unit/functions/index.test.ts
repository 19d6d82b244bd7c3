import { assert, assertEquals, assertMatch } from "@std/assert";

const ENV: Record<string, string> = {
  SUPABASE_URL: "http://database.test",
  SUPABASE_SERVICE_ROLE_KEY: "legacy-secret",
  SUPABASE_SECRET_KEYS: '{"default":"sb_secret_unit"}',
  SIGNATURE_TOLERANCE_SECONDS: "",
  MAX_BODY_BYTES: "",
  PROVIDER_A_SIGNING_SECRET: " whsec_copied-badly",
  PROVIDER_A_SIGNATURE_HEADER: "",
  PROVIDER_A_SIGNATURE_SCHEME: "",
  PROVIDER_B_SIGNING_SECRET: "a-good-secret-of-b",
  PROVIDER_B_SIGNATURE_HEADER: "",
  PROVIDER_B_SIGNATURE_SCHEME: "",
};

/** Runs with the environment set, and puts back what was there. */
async function withEnvironment<T>(
  env: Record<string, string>,
  run: () => Promise<T>,
): Promise<T> {
  const before = Object.keys(env).map((name) => [name, Deno.env.get(name)]);
  try {
    for (const [name, value] of Object.entries(env)) Deno.env.set(name, value);
    return await run();
  } finally {
    for (const [name, value] of before) {
      if (value === undefined) Deno.env.delete(name!);
      else Deno.env.set(name!, value);
    }
  }
}

Deno.test("index.ts names a provider's fault at the start, and serves", async () => {
  const lines: string[] = [];
  const { warn } = console;
  console.warn = (line: string) => lines.push(line);
  try {
    const { default: served } = await withEnvironment(
      ENV,
      () => import("../../../supabase/functions/billing-webhook/index.ts"),
    );
    const faults = lines.splice(0);
    assertMatch(faults[0] ?? "", /PROVIDER_A_SIGNING_SECRET has white space/);
    assert(!faults.join().includes("copied-badly"));
    assert(!faults.join().includes("PROVIDER_B"));

    const url = "http://localhost/billing-webhook";
    assertEquals((await served.fetch(new Request(url))).status, 405);
    const unsigned = new Request(url, { method: "POST", body: "{}" });
    assertEquals((await served.fetch(unsigned)).status, 401);
    assertEquals(lines.length, 2);
  } finally {
    console.warn = warn;
  }
});
