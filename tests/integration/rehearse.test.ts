/** rehearse against a real stack, with a stand-in for Stripe that sends webhooks. */
import { assert, assertEquals, assertMatch } from "@std/assert";
import {
  type Environment,
  functionEnvironment,
  LOCAL_SIGNING_SECRETS,
} from "../../scripts/common/environment.ts";
import { API_VERSIONS } from "../../scripts/events/templates.ts";
import type { StepResult as Step } from "../../scripts/stripe_sync/rehearsal.ts";
import { stripe } from "../../supabase/functions/_shared/billing/events/stripe.ts";
import { type Endpoint, serveSandbox } from "../stripe_sync/sandbox.ts";
import { serveHere } from "../support/machine.ts";
import { command, runScript, TEST_API_KEY } from "../support/run_script.ts";
import { post } from "../support/send.ts";
import { startOwnStack } from "../support/stacks.ts";
import { emptyTables } from "../support/tables.ts";

const secret = LOCAL_SIGNING_SECRETS.PROVIDER_A_SIGNING_SECRET;

let started: Awaited<ReturnType<typeof startOwnStack>>;
Deno.test.beforeAll(async () => {
  started = await startOwnStack();
});
Deno.test.beforeEach(async () => {
  const { sql, stack } = started;
  await emptyTables(sql);
  // As the schedule does each minute.
  await post(stack.urls.worker, { headers: { apikey: stack.keys.secret } });
});
Deno.test.afterAll(() => started[Symbol.asyncDispose]());

async function rehearse(
  stripeUrl: string,
  { args = [], env = {} }: { args?: readonly string[]; env?: Environment } = {},
) {
  const { api } = started.stack.urls;
  const all = ["--stripe-url", stripeUrl, "--wait", "3", ...args];
  const run = { args: all, env: { SUPABASE_URL: api, ...env } };
  return await runScript("rehearse", run);
}

Deno.test("a rehearsal passes without what Stripe refuses, with late, duplicate and disordered events in both shapes", async () => {
  const { stack: { urls: { webhook: url } }, sql } = started;
  const endpoints = API_VERSIONS
    .map((api_version) => ({ url, secret, api_version }));
  const refused = /\/(pause|resume)$/;
  await using sandbox = serveSandbox({ endpoints, refused });
  const shown = await rehearse(sandbox.url, { args: ["--account", "acc_7"] });
  assertEquals(shown.code, 0, shown.out + shown.err);
  assertMatch(shown.out, /^ok +created +\d+ ms\n +\S+created applied$/m);
  assertMatch(shown.out, /updated stale$/m);
  assertMatch(shown.out, /^10 ok, 0 FAIL, 2 skipped$/m);
  assertEquals(sandbox.left(), []);

  const [statement = ""] = /^select .*;$/m.exec(shown.out) ?? [];
  await sql.unsafe(statement);
  assertEquals([...await sql`table billing.subscriptions`], []);
});

Deno.test("a rehearsal reports as JSON, also what it cannot delete", async () => {
  const { webhook: url } = started.stack.urls;
  const refused = /customers\/\w+$/;
  const endpoints = [{ url, secret }];
  await using sandbox = serveSandbox({ endpoints, refused });
  const { code, out, err } = await rehearse(sandbox.url, { args: ["--json"] });
  assertEquals(code, 1, err + out);

  const { steps, ...report } = JSON.parse(out);
  const ok = steps.filter((step: Step) => step.state === "ok");
  assertEquals([ok.length, steps.length], [12, 12]);
  assertEquals(steps.at(-1).account.status, "canceled");
  const ids = steps.flatMap(({ events = [] }: Step) => events)
    .map(({ id }: { id: string }) => id);
  assertEquals(ids.length, new Set(ids).size);
  assertEquals([report.passed, report.faults], [false, []]);
  assertMatch(report.left_at_stripe.join(), /^customers.* is refused$/);
});

interface Fault {
  readonly env?: Environment;
  readonly endpoint?: Partial<Endpoint>;
  /** Run before the rehearsal, and after it. */
  readonly sql?: readonly [before: string, after: string];
  readonly code?: number;
  readonly reason: RegExp;
}

const SELECTED = Object.keys(stripe.kinds);
const HANDLER = "billing.on_invoice_payment_failed(provider text, event jsonb)";
const RELOAD = "notify pgrst, 'reload schema'";

const trigger = (body: string): readonly [string, string] => [
  `create function public.meddle() returns trigger language plpgsql
     as $$ begin ${body} return new; end $$;
   create trigger meddle before insert or update on billing.subscriptions
     for each row execute function public.meddle()`,
  "drop function public.meddle cascade",
];

const FAULTS: Readonly<Record<string, Fault>> = {
  "a type that is not selected": {
    endpoint: {
      enabled_events: SELECTED.filter((type) => !type.endsWith("deleted")),
    },
    reason: /does not select customer\.subscription\.deleted/,
  },
  "another secret": {
    env: { PROVIDER_A_SIGNING_SECRET: "whsec_of_another_endpoint_1" },
    reason: /accepts no event\. .*signature_mismatch, set PROVIDER_A_SIGN/,
  },
  "the other mode": {
    env: { PROVIDER_A_MODE: "live" },
    reason: /other mode ignored", set PROVIDER_A_MODE=test/,
  },
  "a schedule that has ended": {
    sql: ["update billing.leases set scheduled_run_at = '2026-01-01'", ""],
    reason: /worker's runs: .* not woken it successfully since 2026-01-01/,
  },
  "a record that goes to another account": {
    sql: trigger("new.account_id := 'acc_other';"),
    reason: /account_id is acc_other here, rehearsal_\w+ at Stripe/,
  },
  "a planned end that is lost": {
    sql: trigger("new.cancel_at := null;"),
    reason:
      /After "end planned", .* but differs sub_\w+: cancel_at is null here, 20/,
  },
  "a handler that raises": {
    env: { HANDLE_EVENT_TYPES: "invoice.payment_failed" },
    sql: [
      `create function ${HANDLER} returns void
         language plpgsql as $$ begin raise 'too much'; end $$`,
      `drop function ${HANDLER}`,
    ],
    reason: /payment_failed failed with apply_failed: .*too much/,
  },
  "an answer that the app has replaced": {
    sql: [
      `alter function public.billing_account rename to replaced;
       create function public.billing_account(account_id text) returns jsonb
         return jsonb '{"access": true}'; ${RELOAD}`,
      `drop function public.billing_account;
       alter function public.replaced rename to billing_account; ${RELOAD}`,
    ],
    reason: /After "collection paused", .* but access is true\. /,
  },
  "a lost function": {
    sql: [
      `alter function public.billing_apply_events rename to lost; ${RELOAD}`,
      `alter function public.lost rename to billing_apply_events; ${RELOAD}`,
    ],
    reason: /created failed with deployment_fault: /,
  },
  "a window without its grant": {
    sql: [
      "revoke select on public.billing_subscriptions from service_role",
      "grant select on public.billing_subscriptions to service_role",
    ],
    code: 3,
    reason: /permission denied for view billing_subscriptions/,
  },
};

for (const [name, { env, endpoint, ...fault }] of Object.entries(FAULTS)) {
  Deno.test(`a rehearsal finds ${name}`, async () => {
    const { stack, sql } = started;
    const [before = "", after = ""] = fault.sql ?? [];
    const { webhook: url } = stack.urls;
    const endpoints = [{ url: `${url}?from=stripe`, secret, ...endpoint }];
    await using sandbox = serveSandbox({ endpoints });
    if (env) {
      await stack.restartFunctions({ ...functionEnvironment({}), ...env });
    }
    await sql.unsafe(before);
    try {
      const args = ["--url", url];
      const { code, out, err } = await rehearse(sandbox.url, { args });
      assertEquals(code, fault.code ?? 1, err + out);
      assertMatch(out + err, fault.reason);
    } finally {
      await sql.unsafe(after);
      if (env) await stack.restartFunctions(functionEnvironment({}));
    }
    assertEquals(sandbox.left(), []);
  });
}

Deno.test("a rehearsal leaves nothing at Stripe, whenever it is interrupted or fails", async () => {
  const { urls: { api, webhook: url } } = started.stack;
  const endpoints = [{ url, secret }];
  for (
    const at of [
      /POST .*products$/,
      /POST .*customers$/,
      /POST .*subscriptions$/,
      /GET .*events$/,
      /POST .*pay$/,
    ]
  ) {
    const interrupt = (line: string) => {
      if (at.test(line)) child.kill("SIGINT");
    };
    await using sandbox = serveSandbox({ endpoints, onRequest: interrupt });
    const child = command("rehearse", ["--stripe-url", sandbox.url], {
      STRIPE_API_KEY: TEST_API_KEY,
      SUPABASE_URL: api,
    }).spawn();
    const { code, stderr } = await child.output();
    const text = new TextDecoder().decode(stderr);
    assertEquals(code, 130, text);
    assertMatch(text, /^Not finished: interrupted$/m);
    assertEquals(sandbox.left(), [], `${at}`);
  }

  for (const refused of [/\/products$/, /\/attach$/]) {
    await using failing = serveSandbox({ endpoints, refused });
    const { code, out, err } = await rehearse(failing.url);
    assertEquals(code, 3);
    assertMatch(err, /^Not finished: .* is refused$/m);
    assert(!out.includes("No such"), out);
    assertEquals(failing.left(), []);
  }
});

Deno.test("a rehearsal refuses what it must not touch, before it makes anything", async () => {
  const { stack: { urls: { webhook: url } }, sql } = started;
  await using nothing = serveHere(() => new Response("hello"));
  await sql`
    insert into billing.subscriptions (id, provider, account_id, status, plan_id)
    values ('sub_1', 'b', 'acc_taken', 'active', 'p')`;
  const other = "http://127.0.0.1:1/functions/v1/billing-webhook";
  const isNone = /is not an enabled endpoint of this sandbox/;
  for (
    const [reason, code, { endpoint = {}, ...run }] of [
      [/is a live key/, 2, { env: { STRIPE_API_KEY: "sk_live_x" } }],
      [/is a live key/, 2, { env: { STRIPE_API_KEY: "rk_live_x" } }],
      [/rows of account acc_taken/, 3, {
        args: ["--account", "acc_taken"],
      }],
      [isNone, 3, { args: ["--url", url], endpoint: { url: other } }],
      [isNone, 3, { args: ["--url", url], endpoint: { status: "disabled" } }],
      [/is not an endpoint of http/, 2, { args: ["--url", other] }],
      [/is not the receiver\. .* 200/, 3, { args: ["--url", nothing.url] }],
    ] as const
  ) {
    const endpoints = [{ url, secret, ...endpoint }];
    await using sandbox = serveSandbox({ endpoints });
    const ended = await rehearse(sandbox.url, run);
    assertEquals(ended.code, code, ended.err);
    assertMatch(ended.err, reason);
    const made = sandbox.requests.filter((line) => !line.startsWith("GET "));
    assertEquals(made, []);
    assert(ended.out === "");
  }
});
