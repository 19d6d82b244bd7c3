import { assertEquals, assertRejects } from "@std/assert";
import { createHash } from "node:crypto";
import {
  projectOf,
  readResult,
  sentEvent,
} from "../../../scripts/trigger/result.ts";

const EVENT = {
  provider: "a",
  id: "evt_1&select=*",
  type: "customer.subscription.updated",
  subscription: "sub_1",
};
const INVOICE = { ...EVENT, type: "invoice.payment_failed" };
const APPLIED = { processed_events: { outcome: "applied" } };
const STALE = { processed_events: { outcome: "stale" } };
const ROW = {
  subscriptions: { id: "sub_1", status: "active", canceled_at: null },
};
const SHOWN = [
  "The row in billing.subscriptions:",
  "  id      sub_1",
  "  status  active",
];

/** Reads what became of an event from a database with these rows. */
async function resultOf(
  rows: Readonly<Record<string, object>>,
  { status = 200, wasApplied = false, event = EVENT },
) {
  const queries: string[] = [];
  await using server = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen() {} },
    ({ url, headers }) => {
      const { pathname, searchParams } = new URL(url);
      const table = pathname.replace("/rest/v1/billing_", "");
      searchParams.delete("select");
      queries.push(`${table} ${[...searchParams].map(String)}`);
      if (headers.get("apikey") !== "key") {
        return new Response("", { status: 401 });
      }
      assertEquals(headers.get("accept-profile"), "public");
      return Response.json(rows[table] ? [rows[table]] : []);
    },
  );
  const project = {
    url: `http://127.0.0.1:${server.addr.port}`,
    secretKey: status === 999 ? "other" : "key",
  };
  const { lines, errorCode } = await readResult(project, event, {
    status,
    wasApplied,
  });
  return { lines: lines.join("\n"), errorCode, queries };
}

for (
  const [rows, options, expected] of [
    [{ ...APPLIED, ...ROW }, {}, ["applied.", ...SHOWN]],
    [{ ...APPLIED, ...ROW }, { wasApplied: true }, [
      "duplicate: the event was applied before.",
      ...SHOWN,
    ]],
    [{ ...STALE, ...ROW }, {}, [
      "stale: newer events had been applied.",
      ...SHOWN,
    ]],
    [{}, {}, ["ignored: nothing was stored."]],
    [APPLIED, { event: INVOICE }, [
      "applied. There is no row in billing.notifications.",
    ]],
    [{ ...APPLIED, notifications: { id: 4 } }, { event: INVOICE }, [
      "applied.",
      "The row in billing.notifications:",
      "  id  4",
    ]],
    [APPLIED, { status: 401 }, ["failed: nothing was stored."]],
    [
      { failed_events: { error_code: "x", error: "long ".repeat(20) } },
      { status: 422 },
      [
        "failed.",
        "The row in billing.failed_events:",
        "  error_code  x",
        `  error       ${"long ".repeat(13).trim()}`,
        `              ${"long ".repeat(7).trim()}`,
      ],
    ],
  ] as const
) {
  Deno.test(`readResult() of ${JSON.stringify([rows, options])}`, async () => {
    const { lines, errorCode } = await resultOf(rows, options);
    assertEquals(lines, expected.join("\n").replace("\nThe row", " The row"));
    assertEquals(errorCode, "failed_events" in rows ? "x" : undefined);
  });
}

Deno.test("readResult() asks for the event, the subscription and an open failure", async () => {
  const event = "provider,eq.a,event_id,eq.evt_1&select=*";
  const applied = await resultOf({ ...APPLIED, ...ROW }, {});
  assertEquals(applied.queries, [
    `processed_events ${event}`,
    "subscriptions id,eq.sub_1",
  ]);
  const failed = await resultOf({}, { status: 500 });
  assertEquals(failed.queries, [
    `failed_events ${event},resolved_at,is.null`,
  ]);
  await assertRejects(
    () => resultOf({}, { status: 999 }),
    Error,
    "refuses the secret key",
  );
});

Deno.test("projectOf() gives a key only to its own project", () => {
  const local = {
    apiUrl: "http://127.0.0.1:1",
    webhookUrl: "",
    dbUrl: "",
    secretKey: "local",
  };
  const env = { SUPABASE_URL: "https://a.b/", SUPABASE_SECRET_KEY: "hosted" };
  const keyOf = (url: string) => projectOf(url, { local, env })?.secretKey;
  assertEquals(keyOf("http://127.0.0.1:1/hook"), "local");
  assertEquals(keyOf("https://a.b/hook"), "hosted");
  assertEquals(keyOf("https://a.b.example/hook"), undefined);
});

Deno.test("sentEvent() finds what the receiver files a body under", async () => {
  const encode = (text: string) =>
    Uint8Array.from(text, (c) => c.charCodeAt(0));
  const { id, type, subscription } = EVENT;
  const event = { id, type, data: { object: { id: subscription } } };
  assertEquals(await sentEvent(encode(JSON.stringify(event)), "a"), EVENT);
  for (const text of ["", "null", '{"id": 1, "data": null}', "\xff{"]) {
    const body = encode(text);
    const hash = createHash("sha256").update(body).digest("hex");
    assertEquals(await sentEvent(body, "a"), {
      provider: "a",
      id: `sha256:${hash}`,
      type: "",
      subscription: "",
    });
  }
});
