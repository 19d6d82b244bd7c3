import { assertEquals, assertThrows } from "@std/assert";
import { parseImportArguments } from "../../../scripts/import.ts";
import { parseReconcileArguments } from "../../../scripts/reconcile.ts";
import { HelpRequest, UsageError } from "../../../scripts/common/cli.ts";
import { LOCAL_SECRET_KEY } from "../../../supabase/functions/billing-webhook/local_stack.ts";

const REMOTE = ["--project-url", "https://abc.supabase.co/"];
const TEST_KEY = { STRIPE_API_KEY: "sk_test_1" };
const LIVE_KEY = { STRIPE_API_KEY: "rk_live_1" };

function target(
  args: string[],
  env: Record<string, string>,
  warn: (text: string) => void = () => {},
) {
  return parseImportArguments(args, { env, warn });
}

function refused(args: string[], env: Record<string, string>, says: string) {
  const { message } = assertThrows(() => target(args, env), UsageError, says);
  for (const key of Object.values(env)) {
    assertEquals(message.includes(key) && /^[sr]k_.+_./.test(key), false);
  }
}

Deno.test("a test key for the local stack needs no options", () => {
  assertEquals(target([], TEST_KEY), {
    apiKey: "sk_test_1",
    mode: "test",
    stripeUrl: undefined,
    projectUrl: "http://127.0.0.1:54321",
    secretKey: LOCAL_SECRET_KEY,
    provider: "a",
    accountFrom: undefined,
    unmappedSubscriptions: "fail",
    oncePerInvoice: false,
    after: undefined,
  });
});

Deno.test("a live key, and a project that is not local, need --mode", () => {
  refused([], LIVE_KEY, "--mode live");
  const secret = { SUPABASE_SECRET_KEY: "s" };
  const live = { ...LIVE_KEY, ...secret };
  refused(REMOTE, { ...TEST_KEY, ...secret }, "--mode test");
  refused(REMOTE, live, "--mode live");
  const meant = target([...REMOTE, "--mode", "live"], live);
  assertEquals([meant.mode, meant.projectUrl], [
    "live",
    "https://abc.supabase.co",
  ]);
  assertEquals(target(["--mode", "live"], LIVE_KEY).mode, "live");
});

Deno.test("a mode that does not match the key is refused, and so is a key without a mode", () => {
  refused(["--mode", "live"], TEST_KEY, "is a test key");
  refused(["--mode", "test"], LIVE_KEY, "is a live key");
  refused(["--mode", "both"], TEST_KEY, "Choose one of test, live");
  for (
    const key of ["pk_test_1", "sk_1", "whsec_test_1", "sk_test_", "sk_prod_1"]
  ) {
    refused(
      ["--mode", "test"],
      { STRIPE_API_KEY: key },
      "must begin with sk_test_",
    );
  }
  refused([], {}, "STRIPE_API_KEY is not set");
});

Deno.test("the local key is sent to this machine only", () => {
  for (
    const url of [
      "https://abc.supabase.co",
      "https://localhost.example.com",
      "https://127.example.com",
    ]
  ) {
    refused(
      ["--project-url", url, "--mode", "test"],
      TEST_KEY,
      "SUPABASE_SECRET_KEY",
    );
  }
  const env = { ...TEST_KEY, SUPABASE_URL: "https://abc.supabase.co" };
  refused(["--mode", "test"], env, "SUPABASE_SECRET_KEY");
  const secret = { ...env, SUPABASE_SECRET_KEY: "sb_secret_1" };
  assertEquals(target(["--mode", "test"], secret).secretKey, "sb_secret_1");
});

Deno.test("a publishable key is refused, and not repeated", () => {
  const env = { ...TEST_KEY, SUPABASE_SECRET_KEY: "sb_publishable_x" };
  const args = [...REMOTE, "--mode", "test"];
  for (
    const run of [
      () => target(args, env),
      () => target([], { ...env, SUPABASE_URL: "http://127.0.0.1:1" }),
    ]
  ) {
    const { message } = assertThrows(run, UsageError, "sb_secret_");
    assertEquals(message.includes("sb_publishable_x"), false);
  }
});

Deno.test("a key is sent over the network by https only", () => {
  const secret = { SUPABASE_SECRET_KEY: "sb_secret_1" };
  for (
    const url of [
      "http://abc.supabase.co",
      "http://127.evil.example",
      "https://user:hunter2@abc.supabase.co",
      "abc.supabase.co",
    ]
  ) {
    const env = { ...TEST_KEY, ...secret };
    refused(["--project-url", url, "--mode", "test"], env, "--project-url");
    const all = { ...env, SUPABASE_URL: url };
    refused(["--mode", "test"], all, "SUPABASE_URL takes");
  }
  const here = { ...TEST_KEY, SUPABASE_URL: "http://127.0.0.1:1/" };
  assertEquals(target([], here).projectUrl, "http://127.0.0.1:1");
});

Deno.test("without a URL, the local stack that runs is used, with its own key", () => {
  const local = {
    apiUrl: "http://127.0.0.1:5",
    webhookUrl: "http://127.0.0.1:5/functions/v1/billing-webhook",
    dbUrl: "postgresql://127.0.0.1:6/postgres",
    secretKey: "sb_secret_local",
  };
  const warnings: string[] = [];
  const warn = (text: string) => void warnings.push(text);
  for (const parse of [parseImportArguments, parseReconcileArguments]) {
    const chosen = (args: string[], env = {}) => {
      const here = { env: { ...TEST_KEY, ...env }, warn, local };
      const { projectUrl, secretKey } = parse(args, here);
      return [projectUrl, secretKey];
    };
    assertEquals(chosen([]), [local.apiUrl, local.secretKey]);
    assertEquals(chosen([], { SUPABASE_SECRET_KEY: local.secretKey }), [
      local.apiUrl,
      local.secretKey,
    ]);
    assertEquals(warnings.splice(0), []);
    assertEquals(chosen([], { SUPABASE_SECRET_KEY: "sb_secret_hosted" }), [
      local.apiUrl,
      local.secretKey,
    ]);
    assertEquals(warnings.splice(0), [
      "SUPABASE_SECRET_KEY is not used with the local stack. For another project, set SUPABASE_URL.",
    ]);
    const url = "http://127.0.0.1:7";
    const own = { SUPABASE_SECRET_KEY: "sb_secret_own" };
    assertEquals(chosen(["--project-url", url], own), [url, "sb_secret_own"]);
    assertEquals(chosen([], { ...own, SUPABASE_URL: url }), [
      url,
      "sb_secret_own",
    ]);
    assertEquals(warnings, []);
  }
});

Deno.test("the API key is sent to Stripe or this machine only", () => {
  for (
    const url of [
      "https://example.com:443",
      "http://localhost.example.com:1",
      "http://127.0.0.1",
      "ftp://127.0.0.1:1",
      "nonsense",
    ]
  ) refused(["--stripe-url", url], TEST_KEY, "--stripe-url");
  const url = "http://127.0.0.1:8080";
  assertEquals(target(["--stripe-url", url], TEST_KEY).stripeUrl, url);
});

Deno.test("UNMAPPED_SUBSCRIPTIONS has the values of the receiver", () => {
  const env = { ...TEST_KEY, UNMAPPED_SUBSCRIPTIONS: "ignore" };
  assertEquals(target([], env).unmappedSubscriptions, "ignore");
  refused([], { ...env, UNMAPPED_SUBSCRIPTIONS: "yes" }, "fail or ignore");
});

Deno.test("NOTIFY_ONCE_PER_INVOICE has the values of the receiver", () => {
  const env = { ...TEST_KEY, NOTIFY_ONCE_PER_INVOICE: "true" };
  assertEquals(target([], env).oncePerInvoice, true);
  refused([], { ...env, NOTIFY_ONCE_PER_INVOICE: "yes" }, "true or false");
});

Deno.test("unknown options and providers are refused, and --help explains them", () => {
  refused(["--nonsense"], TEST_KEY, "nonsense");
  refused(["--provider", "none"], TEST_KEY, "Choose one of a, b");
  assertThrows(() => target(["--help"], {}), HelpRequest, "--after ID");
});

Deno.test("reconcile changes nothing without --apply", () => {
  const here = { env: TEST_KEY, warn: () => {} };
  const { apply, json } = parseReconcileArguments([], here);
  assertEquals([apply, json], [false, false]);
  assertEquals(parseReconcileArguments(["--dry-run"], here).apply, false);
  assertEquals(parseReconcileArguments(["--apply"], here).apply, true);
  assertEquals(parseReconcileArguments(["--json"], here).json, true);
  assertThrows(
    () => parseReconcileArguments(["-h"], here),
    HelpRequest,
    "--dry-run",
  );
  assertThrows(
    () => parseReconcileArguments(["--apply", "--dry-run"], here),
    UsageError,
    "not both",
  );
});

Deno.test("a secret key with a line break is refused, and not repeated", () => {
  const { message } = assertThrows(
    () =>
      target([], {
        ...TEST_KEY,
        SUPABASE_SECRET_KEY: "sb_secret_1\nsb_secret_2",
      }),
    UsageError,
    "SUPABASE_SECRET_KEY contains a line break",
  );
  assertEquals(message.includes("sb_secret_"), false);
});
