import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { edited } from "../../../scripts/events/edited.ts";
import { subscriptionEvent } from "../../../scripts/events/event.ts";
import { HIDDEN } from "../../../scripts/console/visible.ts";
import { FAILURE, openConsole } from "./console_app.ts";

const HOSTILE = `"'><script>alert(1)</script><img src=x onerror=alert(2)>`;
const PAGE = "/failure?provider=a&event=evt_1";

Deno.test("every value of a failure is escaped on every page that shows it", async () => {
  const { request, send } = openConsole(() =>
    Response.json([{
      ...FAILURE,
      // Of subscriptions, notifications and the ledger.
      id: HOSTILE,
      status: HOSTILE,
      plan_id: HOSTILE,
      outcome: HOSTILE,
      last_error: HOSTILE,
      provider: HOSTILE,
      event_id: HOSTILE,
      type: HOSTILE,
      subscription_id: HOSTILE,
      account_id: HOSTILE,
      error_code: HOSTILE,
      error: HOSTILE,
      payload: JSON.stringify({ [HOSTILE]: `</textarea></pre>${HOSTILE}` }),
      original: JSON.stringify({ a: HOSTILE }),
    }])
  );
  for (
    const response of [
      await request("/failures"),
      await request(PAGE),
      await request("/failure/repair?provider=a&event=evt_1"),
      await send("/failure/repair", {
        provider: HOSTILE,
        event: HOSTILE,
        text: `</textarea>${HOSTILE}`,
        hash: HOSTILE,
      }),
      await request(`/failures/retry?code=${encodeURIComponent(HOSTILE)}`),
      await request(`/search?q=${encodeURIComponent(HOSTILE)}`),
      await request(`/subscription?id=${encodeURIComponent(HOSTILE)}`),
    ]
  ) {
    const text = await response.text();
    assert(text.includes("&lt;script&gt;alert(1)"), "it is shown");
    assertEquals(/<script|<img/.test(text), false);
    assertEquals(
      text.match(/<\/textarea>/g)?.length ?? 0,
      text.match(/<textarea/g)?.length ?? 0,
    );
  }
});

Deno.test("hidden characters are shown by their codes", async () => {
  const { request } = openConsole(() =>
    Response.json([{
      ...FAILURE,
      error: "abc\u202edef\u0007\u200b",
      payload: '{"a": "x\u202ey"}',
    }])
  );
  const text = await (await request(PAGE)).text();
  for (const mark of ["U+202E", "U+0007", "U+200B"]) {
    assertStringIncludes(text, `<span class="hidden-mark">${mark}</span>`);
  }
  assertStringIncludes(text, "x\\u202ey");
  assertEquals(HIDDEN.test(text.replaceAll("\n", "")), false);
});

Deno.test("a long payload is cut, and the download has all of it", async () => {
  const payload = JSON.stringify({ a: "<b>".repeat(400_000) });
  const { request } = openConsole(() =>
    Response.json([{ ...FAILURE, payload }])
  );
  const text = await (await request(PAGE)).text();
  assert(text.length < 1_000_000, `${text.length}`);
  assertStringIncludes(text, "Only the beginning is shown");
  const file = await request(
    "/failure/payload?provider=a&event=evt_1&which=payload",
  );
  assertEquals(await file.text(), payload);
  assertEquals(file.headers.get("content-type"), "text/plain; charset=utf-8");
  assertStringIncludes(
    file.headers.get("content-disposition") ?? "",
    "attachment",
  );
});

Deno.test("a page says what to do if the database does not answer", async () => {
  const { request } = openConsole(() => {
    throw new TypeError("connection refused");
  });
  for (
    const path of ["/", "/failures", PAGE, "/notifications", "/search?q=x"]
  ) {
    const response = await request(path);
    assertEquals(response.status, 502);
    const text = await response.text();
    assertStringIncludes(text, "Cannot reach http://127.0.0.1:54321");
    assertStringIncludes(text, "deno task start");
  }
});

Deno.test("a page says what to do if the key is refused, or something is missing", async () => {
  for (
    const [status, body, expected] of [
      [401, { message: "Invalid API key" }, "refuses the secret key"],
      [404, { code: "PGRST202", message: "no function" }, "deno task start"],
      [403, { code: "42501", message: "permission denied" }, "deno task start"],
    ] as const
  ) {
    const { request } = openConsole(() => Response.json(body, { status }));
    const text = await (await request("/failures")).text();
    assertStringIncludes(text, expected);
  }
});

Deno.test("an action that Postgres refuses says why, with the hint", async () => {
  const { request, send } = openConsole(({ path }) =>
    path.includes("/rpc/")
      ? Response.json({
        code: "P0001",
        message: "Cannot retry evt_1: its payload was pruned.",
        hint: "Have the provider send the event again.",
      }, { status: 400 })
      : Response.json([FAILURE])
  );
  const answer = await send("/failure/retry", {
    provider: "a",
    event: "evt_1",
  });
  assertEquals(answer.status, 303);
  const text = await (await request(answer.headers.get("location")!)).text();
  assertStringIncludes(text, "its payload was pruned.");
  assertStringIncludes(text, "Have the provider send the event again.");
  // Once.
  const again = await (await request(PAGE)).text();
  assertEquals(again.includes("its payload was pruned."), false);
});

Deno.test("a repair sends what was typed, character by character", async () => {
  const typed =
    `{"id":"evt_1","type":"customer.subscription.deleted","data":{"object":{"id":"sub_1","big":12345678901234567890,"small":1.10,"twice":1,"twice":2}}}`;
  const { request, send, calls } = openConsole();
  const page = await (await request("/failure/repair?provider=a&event=evt_1"))
    .text();
  const hash = /name="hash" value="([^"]+)"/.exec(page)?.[1] ?? "";
  const answer = await send("/failure/repair", {
    provider: "a",
    event: "evt_1",
    text: typed,
    hash,
  });
  assertEquals(answer.status, 303);
  const [patch, ...more] = calls.filter(({ method }) => method === "PATCH");
  assertEquals(more, []);
  assertEquals(patch?.body, `{"payload":${typed}}`);
  assertStringIncludes(patch?.path ?? "", "columns=payload");
});

for (
  const [what, text, fault] of [
    ["not JSON", '{"id": ', "This is not JSON"],
    ["more than one value", '{}, "resolved_at": "now"', "This is not JSON"],
    ["empty", " ", "This is not JSON"],
    [
      "without a price",
      JSON.stringify(edited(
        subscriptionEvent("customer.subscription.created"),
        { "data.object.items.data.0.price.id": "" },
      )),
      "data.object.items.data[0].price.id: must not be blank",
    ],
    [
      "of a type without effect",
      '{"id":"evt_1","type":"charge.failed"}',
      "has no effect here",
    ],
    [
      "a thin event",
      '{"id":"evt_1","type":"v1.billing.meter.error"}',
      "thin event",
    ],
  ] as const
) {
  Deno.test(`a repair that is ${what} is not saved, and the text stays`, async () => {
    const { request, send, calls } = openConsole();
    const page = await (await request("/failure/repair?provider=a&event=evt_1"))
      .text();
    const hash = /name="hash" value="([^"]+)"/.exec(page)?.[1] ?? "";
    const answer = await send("/failure/repair", {
      provider: "a",
      event: "evt_1",
      text,
      hash,
    });
    assertEquals(answer.status, 422);
    const again = await answer.text();
    assertStringIncludes(again, fault);
    assertStringIncludes(again, text.replaceAll('"', "&quot;"));
    assertEquals(calls.filter(({ method }) => method === "PATCH"), []);
  });
}

Deno.test("a repair of a payload that somebody has changed is not saved", async () => {
  const { send, calls } = openConsole();
  const answer = await send("/failure/repair", {
    provider: "a",
    event: "evt_1",
    text:
      '{"id":"evt_1","type":"customer.subscription.deleted","data":{"object":{"id":"sub_1"}}}',
    hash: "of another payload",
  });
  assertEquals(answer.status, 422);
  assertStringIncludes(await answer.text(), "Somebody has changed the payload");
  assertEquals(calls.filter(({ method }) => method === "PATCH"), []);
});

Deno.test("the secret key follows no redirect", async () => {
  const { request, send, redirects } = openConsole();
  await request(PAGE);
  await send("/failure/retry", { provider: "a", event: "evt_1" });
  assert(redirects.length > 2);
  assertEquals([...new Set(redirects)], ["error"]);
});
