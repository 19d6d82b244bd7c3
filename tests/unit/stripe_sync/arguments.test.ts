import { assert, assertEquals, assertThrows } from "@std/assert";
import { parseImportArguments } from "../../../scripts/import.ts";
import { parseReconcileArguments } from "../../../scripts/reconcile.ts";
import { HelpRequest, UsageError } from "../../../scripts/common/cli.ts";
import type { Surroundings } from "../../../scripts/common/option_values.ts";
import { LOCAL_SECRET_KEY } from "../../../supabase/functions/billing-webhook/local_stack.ts";

const TEST = "STRIPE_API_KEY=sk_test_1";
const LIVE = "STRIPE_API_KEY=rk_live_1";
const SECRET = "SUPABASE_SECRET_KEY=sb_secret_1";
const REMOTE = "SUPABASE_URL=https://abc.supabase.co";

/** Parses a line of a shell: variables, and then options. */
function parsed(
  line: string,
  here: Pick<Surroundings, "local"> & { warn?: (text: string) => void } = {},
) {
  const words = line.split(" ").filter((word) => word !== "");
  const env = Object.fromEntries(
    words.filter((word) => /^[A-Z]/.test(word))
      .map((word) => [word.split("=")[0], word.replace(/^\w+=/, "")]),
  );
  const args = words.filter((word) => !/^[A-Z]/.test(word));
  const parse = args.some((arg) => /^--(apply|json|dry-run)|-h$/.test(arg))
    ? parseReconcileArguments
    : parseImportArguments;
  return parse(args, { env, warn: () => {}, ...here });
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
  after: undefined,
};

const REMOTE_VALUES = {
  projectUrl: "https://abc.supabase.co",
  secretKey: "sb_secret_1",
};

Deno.test("options and variables name the account and the project", () => {
  for (
    const [line, values] of [
      [TEST, DEFAULTS],
      [`${LIVE} --mode live`, { apiKey: "rk_live_1", mode: "live" }],
      [`${TEST} ${SECRET} ${REMOTE}/ --mode test`, REMOTE_VALUES],
      [
        `${TEST} ${SECRET} --mode test --project-url https://abc.supabase.co`,
        REMOTE_VALUES,
      ],
      [`${TEST} --stripe-url http://localhost:1`, {
        stripeUrl: "http://localhost:1",
      }],
      [`${TEST} --provider b --account-from team --after sub_1`, {
        provider: "b",
        accountFrom: "team",
        after: "sub_1",
      }],
      [
        `${TEST} UNMAPPED_SUBSCRIPTIONS=ignore NOTIFY_ONCE_PER_INVOICE=true`,
        { unmappedSubscriptions: "ignore", oncePerInvoice: true },
      ],
      // reconcile changes nothing without --apply.
      [`${TEST} --dry-run`, { apply: false, json: false }],
      [`${TEST} --json`, { apply: false, json: true }],
      [`${TEST} --apply`, { apply: true, json: false }],
    ] as const
  ) {
    const found = parsed(line);
    assertEquals<unknown>({ ...found, ...values }, found);
  }
});

for (
  const [line, says] of [
    ["", "STRIPE_API_KEY is not set"],
    ["STRIPE_API_KEY=pk_test_1 --mode test", "must begin with sk_test_"],
    ["STRIPE_API_KEY=sk_1 --mode test", "must begin with sk_test_"],
    ["STRIPE_API_KEY=sk_prod_1 --mode test", "must begin with sk_test_"],
    [LIVE, "local. If that is intended, add --mode live"],
    [`${TEST} ${SECRET} ${REMOTE}`, "add --mode test"],
    [`${LIVE} ${SECRET} ${REMOTE}`, "add --mode live"],
    [`${TEST} --mode live`, "is a test key"],
    [`${LIVE} --mode test`, "is a live key"],
    [`${TEST} --mode both`, "Choose one of test, live"],
    // The local key is sent to this machine only.
    [`${TEST} ${REMOTE} --mode test`, "needs SUPABASE_SECRET_KEY"],
    [
      `${TEST} --mode test --project-url https://localhost.example.com`,
      "needs SUPABASE_SECRET_KEY",
    ],
    [`${TEST} ${SECRET} SUPABASE_URL=abc.co --mode test`, "SUPABASE_URL takes"],
    [`${TEST} SUPABASE_SECRET_KEY=sb_publishable_1`, "sb_secret_"],
    // Stripe's key is sent to Stripe or this machine only.
    [`${TEST} --stripe-url https://example.com:443`, "--stripe-url takes"],
    [`${TEST} --stripe-url http://localhost.example.com:1`, "--stripe-url"],
    [`${TEST} --stripe-url http://127.0.0.1`, "--stripe-url takes"],
    [`${TEST} --stripe-url ftp://127.0.0.1:1`, "--stripe-url takes"],
    [`${TEST} UNMAPPED_SUBSCRIPTIONS=yes`, "fail or ignore"],
    [`${TEST} NOTIFY_ONCE_PER_INVOICE=yes`, "true or false"],
    [`${TEST} --after=`, "--after takes"],
    [`${TEST} --apply --dry-run`, "not both"],
  ] as const
) {
  Deno.test(`"${line}" is refused: ${says}`, () => {
    const { message } = assertThrows(() => parsed(line), UsageError, says);
    for (const [, secret = ""] of line.matchAll(/_KEY=(\S+)/g)) {
      assert(!message.includes(secret), message);
    }
  });
}

Deno.test("without a URL, the local stack that runs is used, with its own key", () => {
  const local = {
    apiUrl: "http://127.0.0.1:5",
    webhookUrl: "http://127.0.0.1:5/functions/v1/billing-webhook",
    dbUrl: "postgresql://127.0.0.1:6/postgres",
    secretKey: "sb_secret_local",
  };
  const warning =
    "SUPABASE_SECRET_KEY is not used with the local stack. For another project, set SUPABASE_URL.";
  const url = "http://127.0.0.1:7";
  for (
    const [line, ...expected] of [
      [TEST, local.apiUrl, local.secretKey],
      [`${TEST} ${SECRET}`, local.apiUrl, local.secretKey, warning],
      [`${TEST} ${SECRET} SUPABASE_URL=${url}`, url, "sb_secret_1"],
    ] as const
  ) {
    const warned: string[] = [];
    const warn = (text: string) => void warned.push(text);
    const { projectUrl, secretKey } = parsed(line, { local, warn });
    assertEquals<unknown>([projectUrl, secretKey, ...warned], expected);
  }
});

Deno.test("--help explains the options of each command", () => {
  assertThrows(() => parsed("--help"), HelpRequest, "--after ID");
  assertThrows(() => parsed("-h"), HelpRequest, "--dry-run");
});
