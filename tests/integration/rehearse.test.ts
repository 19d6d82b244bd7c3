/** rehearse against a real stack, with a stand-in for Stripe that sends webhooks. */
import { assert, assertEquals, assertMatch } from "@std/assert";
import {
  type Environment,
  LOCAL_SIGNING_SECRETS,
} from "../../scripts/common/environment.ts";
import { API_VERSIONS } from "../../scripts/events/templates.ts";
import { stripe } from "../../supabase/functions/_shared/billing/events/stripe.ts";
import { type Endpoint, serveSandbox } from "../stripe_sync/sandbox.ts";
import { startReceiver } from "../support/functions.ts";
import { serveHere } from "../support/machine.ts";
import { command, runScript, TEST_API_KEY } from "../support/run_script.ts";
import { post } from "../support/send.ts";
import { startOwnStack } from "../support/stacks.ts";
import { connect, emptyTables } from "../support/tables.ts";
import { setting } from "../support/test_environment.ts";

const secret = LOCAL_SIGNING_SECRETS.PROVIDER_A_SIGNING_SECRET;
const sql = connect();
Deno.test.beforeEach(async () => {
  await emptyTables(sql);
  await sql`
    insert into billing.leases (queue, lease_id, held_until, scheduled_run_at)
    select queue, gen_random_uuid(), '-infinity', now()
    from unnest('{retries, notifications}'::text[]) as queue`;
});
Deno.test.afterAll(() => sql.end());

async function rehearsal(
  stripeUrl: string,
  url: string,
  { args = [], env = {} }: { args?: string[]; env?: Environment } = {},
) {
  const places = ["--stripe-url", stripeUrl, "--url", url];
  const all = ["--json", "--wait", "3", ...places, ...args];
  return await runScript("rehearse", { args: all, env });
}

Deno.test("a rehearsal passes on a stack, with late, duplicate and disordered events in both shapes", async () => {
  await using started = await startOwnStack();
  const { urls, keys } = started.stack;
  await post(urls.worker, { headers: { apikey: keys.secret } });
  const endpoints = API_VERSIONS.map((api_version) => ({
    url: urls.webhook,
    secret,
    api_version,
  }));
  await using sandbox = serveSandbox({ endpoints });
  const env = { SUPABASE_URL: urls.api };

  const args = ["--stripe-url", sandbox.url, "--account", "acc_7"];
  const shown = await runScript("rehearse", { args, env });
  assertEquals(shown.code, 0, shown.out + shown.err);
  assertMatch(shown.out, /^ok +created +\d+ ms\n +\S+created applied$/m);
  assertMatch(shown.out, /^12 ok, 0 FAIL, 0 skipped$/m);
  assertEquals(sandbox.left(), []);

  const [statement = ""] = /^select .*;$/m.exec(shown.out) ?? [];
  await started.sql.unsafe(statement);
  assertEquals([...await started.sql`table billing.subscriptions`], []);
  const run = { args: [], env };
  const again = await rehearsal(sandbox.url, urls.webhook, run);
  const report = JSON.parse(again.out);
  assertEquals([again.code, report.passed, report.faults], [0, true, []]);
  assertEquals(report.endpoint_api_version, API_VERSIONS[0]);
  const { steps } = report;
  assertEquals(steps.length, 12);
  assertEquals(steps.at(-1).account.status, "canceled");
  assertEquals(report.left_in_project, { subscriptions: 1, notifications: 1 });
});

Deno.test("a rehearsal goes on without what Stripe refuses to this account", async () => {
  await using receiver = await startReceiver();
  const endpoints = [{ url: receiver.url, secret }];
  const refused = /\/(pause|resume)$/;
  await using sandbox = serveSandbox({ endpoints, refused });
  const { code, out, err } = await rehearsal(sandbox.url, receiver.url);
  const { steps } = JSON.parse(out);
  const skipped = steps.filter(({ state }: { state: string }) =>
    state === "skipped"
  );
  assertEquals([code, skipped.length, steps.length], [0, 2, 12], err);
});

interface Fault {
  readonly env?: Environment;
  readonly endpoint?: Partial<Endpoint>;
  /** Run before the rehearsal, and after it. */
  readonly sql?: readonly [before: string, after: string];
  readonly code?: number;
  readonly reason: RegExp;
}

const trigger = (body: string): readonly [string, string] => [
  `create function public.meddle() returns trigger language plpgsql
     as $$ begin ${body} return new; end $$;
   create trigger meddle before insert or update on billing.subscriptions
     for each row execute function public.meddle()`,
  "drop function public.meddle cascade",
];

const SELECTED = Object.keys(stripe.kinds);
const UPDATED = "customer.subscription.updated";
const ON_UPDATED = "billing.on_customer_subscription_updated";

const FAULTS: Readonly<Record<string, Fault>> = {
  "a type that is not selected": {
    endpoint: {
      enabled_events: SELECTED.filter((type) => !type.endsWith("deleted")),
    },
    reason: /does not select customer\.subscription\.deleted/,
  },
  "another secret": {
    env: { PROVIDER_A_SIGNING_SECRET: "whsec_of_another_endpoint_1" },
    reason: /another signing secret/,
  },
  "another format": {
    env: { PROVIDER_A_FORMAT: "paddle" },
    reason: /or another format/,
  },
  "a clock that is behind": {
    endpoint: { aheadSeconds: 600 },
    reason: /its clock is (59\d|60\d) s behind/,
  },
  "the other mode": {
    env: { PROVIDER_A_MODE: "live" },
    reason: /PROVIDER_A_MODE must be test or any/,
  },
  "a schedule that has ended": {
    sql: ["update billing.leases set scheduled_run_at = '2026-01-01'", ""],
    reason: /The schedule has not woken the worker since 2026-01-01/,
  },
  "a notice that is switched off": {
    env: { NOTIFY: "ended" },
    reason: /made no notification.*NOTIFY/,
  },
  "a record that goes to another account": {
    sql: trigger("new.account_id := 'acc_other';"),
    reason: /has the account acc_other instead of rehearsal_/,
  },
  "a plan that is kept": {
    sql: trigger("new.plan_id := coalesce(old.plan_id, new.plan_id);"),
    reason:
      /After "another plan", .* plan_id is "price_\w+" instead of "price_/,
  },
  "a trigger that raises": {
    sql: trigger("raise 'no such tenant';"),
    reason: /created failed with apply_failed: .*no such tenant/,
  },
  "a handler that raises": {
    env: { HANDLE_EVENT_TYPES: UPDATED },
    sql: [
      `create function ${ON_UPDATED}(provider text, event jsonb) returns void
         language plpgsql as $$ begin raise 'too much'; end $$`,
      `drop function ${ON_UPDATED}`,
    ],
    reason: /updated failed with apply_failed: .*too much/,
  },
  "a handler that is missing": {
    env: { HANDLE_EVENT_TYPES: UPDATED },
    reason: /updated failed with handler_missing/,
  },
  "a lost function": {
    sql: [
      "alter function public.billing_apply_events rename to lost; notify pgrst, 'reload schema'",
      "alter function public.lost rename to billing_apply_events; notify pgrst, 'reload schema'",
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

for (const [name, fault] of Object.entries(FAULTS)) {
  Deno.test(`a rehearsal finds ${name}`, async () => {
    const [before = "", after = ""] = fault.sql ?? [];
    await using receiver = await startReceiver({ env: fault.env ?? {} });
    await using door = behindClock(receiver.url, fault.endpoint?.aheadSeconds);
    const endpoint = { url: door.url, secret, ...fault.endpoint };
    await using sandbox = serveSandbox({ endpoints: [endpoint] });
    await sql.unsafe(before);
    try {
      const { code, out, err } = await rehearsal(sandbox.url, door.url);
      assertEquals(code, fault.code ?? 1, err + out);
      const { faults = [] } = out ? JSON.parse(out) : {};
      assertMatch([...faults, err].join("\n"), fault.reason);
    } finally {
      await sql.unsafe(after);
    }
    assertEquals(sandbox.left(), []);
  });
}

/** Stands in front of a receiver, and shows how far its clock is behind. */
function behindClock(url: string, seconds = 0) {
  return serveHere(async (request) => {
    const { method, headers } = request;
    const body = await request.bytes();
    const response = await fetch(url, { method, headers, body });
    const date = new Date(Date.now() - seconds * 1000).toUTCString();
    const text = await response.text();
    return new Response(text, { status: response.status, headers: { date } });
  });
}

Deno.test("a rehearsal leaves nothing at Stripe, whenever it is interrupted or fails", async () => {
  await using receiver = await startReceiver();
  const endpoints = [{ url: receiver.url, secret }];
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
    const args = ["--stripe-url", sandbox.url, "--url", receiver.url];
    const child = command("rehearse", args, {
      STRIPE_API_KEY: TEST_API_KEY,
      SUPABASE_URL: setting("TEST_API_URL"),
    }).spawn();
    const { code, stderr } = await child.output();
    const text = new TextDecoder().decode(stderr);
    assertEquals(code, 130, text);
    assertMatch(text, /^Interrupted\.$/m);
    assert(sandbox.requests.some((line) => at.test(line)));
    assertEquals(sandbox.left(), [], `${at}`);
  }

  await using failing = serveSandbox({ endpoints, refused: /\/pay$/ });
  const { code, err } = await rehearsal(failing.url, receiver.url);
  assertEquals(code, 3);
  assertMatch(err, /^Not finished: .*pay is refused$/m);
  assertEquals(failing.left(), []);
});

Deno.test("a rehearsal refuses what it must not touch, before it makes anything", async () => {
  await using receiver = await startReceiver();
  const { url } = receiver;
  await using nothing = serveHere(() => new Response("hello"));
  await sql`
    insert into billing.subscriptions (id, provider, account_id, status, plan_id)
    values ('sub_1', 'b', 'acc_taken', 'active', 'p')`;
  const other = "http://127.0.0.1:1/functions/v1/billing-webhook";
  for (
    const [reason, code, { endpoint = {}, ...options }] of [
      ["is a live key", 2, { env: { STRIPE_API_KEY: "sk_live_x" } }],
      ["is a live key", 2, { env: { STRIPE_API_KEY: "rk_live_x" } }],
      ["already has rows of the account acc_taken", 3, {
        args: ["--account", "acc_taken"],
      }],
      ["is not an endpoint of this sandbox", 3, { endpoint: { url: other } }],
      ["is disabled at Stripe", 3, { endpoint: { status: "disabled" } }],
      ["is the endpoint of another project", 2, { args: ["--url", other] }],
      ["is not the receiver: answered 200", 3, {
        args: ["--url", nothing.url],
      }],
    ] as const
  ) {
    const endpoints = [{ url, secret, ...endpoint }];
    await using sandbox = serveSandbox({ endpoints });
    const { args = [], env = {} } = { args: [], env: {}, ...options };
    const run = { args: [...args], env };
    const ended = await rehearsal(sandbox.url, url, run);
    assertEquals(ended.code, code, ended.err);
    assert(ended.err.includes(reason), ended.err);
    const made = sandbox.requests.filter((line) => !line.startsWith("GET "));
    assertEquals(made, [], reason);
  }
});
