import { assertEquals, assertStringIncludes } from "@std/assert";
import { edited } from "../../support/edited.ts";
import { subscriptionEvent } from "../../../scripts/events/subscription_event.ts";
import { FAILURE, openConsole } from "./console_app.ts";

const DELETION =
  '{"id":"evt_1","type":"customer.subscription.deleted","data":{"object":{"id":"sub_1"}}}';

/** Opens the form of a failure's repair; returns what sends it with a text. */
async function openRepair(
  { request, send }: Pick<ReturnType<typeof openConsole>, "request" | "send">,
  event = "evt_1",
): Promise<(text: string) => Promise<Response>> {
  const fields = { provider: "a", event };
  const url = `/failure/repair?${new URLSearchParams(fields)}`;
  const page = await (await request(url)).text();
  const hash = /name="hash" value="([^"]+)"/.exec(page)?.[1] ?? "";
  return (text) => send("/failure/repair", { ...fields, text, hash });
}

Deno.test("a repair sends what was typed, character by character", async () => {
  const typed =
    `{"id":"evt_1","type":"customer.subscription.deleted","data":{"object":{"id":"sub_1","big":12345678901234567890,"small":1.10,"twice":1,"twice":2}}}`;
  const { calls, ...app } = openConsole();
  const repair = await openRepair(app);
  const answer = await repair(typed);
  assertEquals(answer.status, 303);
  const [patch, ...more] = calls.filter(({ method }) => method === "PATCH");
  assertEquals(more, []);
  assertEquals(patch?.body, `{"payload":${typed}}`);
  assertStringIncludes(patch?.path ?? "", "columns=payload");
  assertEquals(patch?.headers.get("content-profile"), "public");
});

for (
  const [what, text, fault] of [
    ["not JSON", '{"id": ', "This is not JSON"],
    ["more than one value", '{}, "resolved_at": "now"', "This is not JSON"],
    ["empty", " ", "This is not JSON"],
    [
      "the payload of another event",
      DELETION.replace("evt_1", "evt_2"),
      "id: must be evt_1",
    ],
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
    const { calls, ...app } = openConsole();
    const repair = await openRepair(app);
    const answer = await repair(text);
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
    text: DELETION,
    hash: "of another payload",
  });
  assertEquals(answer.status, 422);
  assertStringIncludes(await answer.text(), "Somebody has changed the payload");
  assertEquals(calls.filter(({ method }) => method === "PATCH"), []);
});

for (const original of [null, '{"id": "evt_1"}']) {
  const what = original === null ? "first" : "second";
  Deno.test(`of two ${what} repairs at once, only one is saved`, async () => {
    const { calls, ...app } = openConsole(({ method }) =>
      Response.json(
        method === "PATCH" ? [] : [{ ...FAILURE, original, version: "75" }],
      )
    );
    const repair = await openRepair(app);
    const answer = await repair(DELETION);
    const [patch] = calls.filter(({ method }) => method === "PATCH");
    assertStringIncludes(patch?.path ?? "", "version=eq.75");
    assertEquals(answer.status, 422);
    assertStringIncludes(await answer.text(), "changed at the same moment");
  });
}

for (
  const [what, changes] of [
    ["was resolved", { resolved_at: FAILURE.last_failed_at }],
    ["has no payload any more", { payload: null }],
  ] as const
) {
  Deno.test(`the repair of what ${what} leads to its page`, async () => {
    const { request } = openConsole(() =>
      Response.json([{ ...FAILURE, ...changes }])
    );
    const answer = await request("/failure/repair?provider=a&event=evt_1");
    assertEquals(
      [answer.status, answer.headers.get("location")],
      [303, "/failure?provider=a&event=evt_1"],
    );
  });
}

Deno.test("an event whose own ID was not usable may be given one", async () => {
  const { calls, ...app } = openConsole(() =>
    Response.json([{ ...FAILURE, event_id: "sha256:00" }])
  );
  const repair = await openRepair(app, "sha256:00");
  const answer = await repair(DELETION);
  assertEquals(answer.status, 303);
  assertEquals(calls.filter(({ method }) => method === "PATCH").length, 1);
});

for (
  const [what, retry_requested_at, expected] of [
    ["without a retry", null, "Now retry the event"],
    ["during a retry", FAILURE.last_failed_at, "is requested already"],
  ] as const
) {
  Deno.test(`a repair ${what} says what happens next`, async () => {
    const { request, send } = openConsole(() =>
      Response.json([{ ...FAILURE, retry_requested_at }])
    );
    const repair = await openRepair({ request, send });
    const answer = await repair(DELETION);
    const text = await (await request(answer.headers.get("location")!)).text();
    assertStringIncludes(text, expected);
  });
}

Deno.test("a repair that the database cannot take keeps the text", async () => {
  let isAway = false;
  const repair = await openRepair(openConsole(() => {
    if (isAway) throw new TypeError("connection refused");
    return Response.json([FAILURE]);
  }));
  isAway = true;
  const answer = await repair(DELETION.replace("sub_1", "sub_typed"));
  const text = await answer.text();
  assertStringIncludes(text, "sub_typed");
  assertStringIncludes(text, "Cannot reach");
  assertEquals(text.includes("the receiver would refuse it"), false);
});

Deno.test("a repair whose answer cannot be read does not say that nothing was changed", async () => {
  const repair = await openRepair(
    openConsole(({ method }) =>
      method === "PATCH" ? new Response("<html>") : Response.json([FAILURE])
    ),
  );
  const answer = await repair(DELETION.replace("sub_1", "sub_typed"));
  const text = await answer.text();
  assertStringIncludes(text, "sub_typed");
  assertStringIncludes(text, "It is not known whether the repair was saved");
  assertStringIncludes(text, "Perhaps not saved");
  assertEquals(/Nothing was changed|Not saved/.test(text), false);
});
