import { assert, assertEquals, assertThrows } from "@std/assert";
import { parseReconcileArguments } from "../../../scripts/reconcile.ts";
import { UsageError } from "../../../scripts/common/cli.ts";
import type { Surroundings } from "../../../scripts/common/option_values.ts";
import { LOCAL_SECRET_KEY } from "../../../supabase/functions/billing-webhook/local_stack.ts";

const TEST = "STRIPE_API_KEY=sk_test_1";
const LIVE = "STRIPE_API_KEY=rk_live_1";
const SECRET = "SUPABASE_SECRET_KEY=sb_secret_1";
const REMOTE = "SUPABASE_URL=https://abc.supabase.co";

/** Parses a line of a shell: variables, and then options. */
function parsed(
  line: string,
  here: Omit<Surroundings, "env"> = { local: undefined, warn: () => {} },
) {
  const words = line.split(" ").filter(Boolean);
  const variables = words.filter((word) => /^[A-Z]/.test(word));
  const env = Object.fromEntries(variables.map((word) => word.split("=")));
  const args = words.slice(variables.length);
  return parseReconcileArguments(args, { env, ...here });
}

const DEFAULTS = {
  apiKey: "sk_test_1",
  mode: "test",
  stripeUrl: undefined,
  projectUrl: "http://127.0.0.1:54321",
  secretKey: LOCAL_SECRET_KEY,
  provider: "a",
  accountFrom: undefined,
  unmappedSubscriptions: "fail",
  oncePerInvoice: false,
};
const REMOTE_URL = "https://abc.supabase.co";
const OF_REMOTE = { projectUrl: REMOTE_URL, secretKey: "sb_secret_1" };
const LOCAL = {
  apiUrl: "http://127.0.0.1:5",
  webhookUrl: "http://127.0.0.1:5/functions/v1/billing-webhook",
  dbUrl: "postgresql://127.0.0.1:6/postgres",
  secretKey: "sb_secret_local",
};
const OF_LOCAL = { projectUrl: LOCAL.apiUrl, secretKey: LOCAL.secretKey };
const OTHER = "http://127.0.0.1:7";
const SETTINGS = "UNMAPPED_SUBSCRIPTIONS=ignore NOTIFY_ONCE_PER_INVOICE=true";

Deno.test("options and variables name the account and the project", () => {
  for (
    const [line, values, local = undefined, warned = false] of [
      [TEST, DEFAULTS],
      [`${LIVE} --mode live`, { apiKey: "rk_live_1", mode: "live" }],
      [`${TEST} ${SECRET} ${REMOTE}/ --mode test`, OF_REMOTE],
      [`${TEST} ${SECRET} --mode test --project-url ${REMOTE_URL}`, OF_REMOTE],
      [`${TEST} --stripe-url ${OTHER}`, { stripeUrl: OTHER }],
      [`${TEST} --provider b --account-from team`, {
        ...{ provider: "b", accountFrom: "team" },
      }],
      [`${TEST} ${SETTINGS}`, {
        ...{ unmappedSubscriptions: "ignore", oncePerInvoice: true },
      }],
      // reconcile changes nothing without --apply.
      [`${TEST} --dry-run`, { apply: false, json: false }],
      [`${TEST} --json`, { apply: false, json: true }],
      [`${TEST} --apply`, { apply: true, json: false }],
      // The local stack that runs, with its own key.
      [TEST, OF_LOCAL, LOCAL],
      [`${TEST} ${SECRET}`, OF_LOCAL, LOCAL, true],
      [`${TEST} ${SECRET} SUPABASE_URL=${OTHER}`, {
        ...{ projectUrl: OTHER, secretKey: "sb_secret_1" },
      }, LOCAL],
    ] as [string, object, typeof LOCAL?, boolean?][]
  ) {
    const warnings: string[] = [];
    const warn = (text: string) => void warnings.push(text);
    const found = parsed(line, { local, warn });
    assertEquals<unknown>({ ...found, ...values }, found);
    assertEquals(warnings.length, warned ? 1 : 0);
  }
});

Deno.test("what is missing or does not fit is refused, and no key repeated", () => {
  for (
    const [line, says] of [
      ["", "STRIPE_API_KEY is not set"],
      ["STRIPE_API_KEY=sk_1 --mode test", "must begin with sk_test_"],
      [LIVE, "local. If that is intended, add --mode live"],
      [`${TEST} ${SECRET} ${REMOTE}`, "add --mode test"],
      [`${LIVE} ${SECRET} ${REMOTE}`, "add --mode live"],
      [`${TEST} --mode live`, "is a test key, but --mode is live"],
      [`${LIVE} --mode test`, "is a live key"],
      // The local key is sent to this machine only.
      [`${TEST} ${REMOTE} --mode test`, "needs SUPABASE_SECRET_KEY"],
      [
        `${TEST} --mode test --project-url https://localhost.example.com`,
        "needs SUPABASE_SECRET_KEY",
      ],
      [`${TEST} SUPABASE_SECRET_KEY=sb_publishable_1`, "sb_secret_"],
      // Stripe's key is sent to Stripe or this machine only.
      [`${TEST} --stripe-url http://localhost.example.com:1`, "--stripe-url"],
      [`${TEST} UNMAPPED_SUBSCRIPTIONS=yes`, "fail or ignore"],
      [`${TEST} NOTIFY_ONCE_PER_INVOICE=yes`, "true or false"],
      [`${TEST} --apply --dry-run`, "not both"],
    ] as const
  ) {
    const { message } = assertThrows(() => parsed(line), UsageError, says);
    for (const [, secret = ""] of line.matchAll(/_KEY=(\S+)/g)) {
      assert(!message.includes(secret), message);
    }
  }
});
