import { assert, assertEquals, assertThrows } from "@std/assert";
import type { EventMode } from "../../../supabase/functions/_shared/billing/config.ts";
import {
  DeliveryError,
  type ErrorCode,
} from "../../../supabase/functions/_shared/billing/errors.ts";
import {
  decodeBody,
  isUnmapped,
  type ParsedEvent,
  parseEvent,
} from "../../../supabase/functions/_shared/billing/parse_event.ts";
import {
  ABSENT,
  CREATED,
  DELETED,
  FAILED,
  NO_ID,
  NO_TIME,
  NOW,
  stripeEvent as event,
  UPDATED,
} from "./fixtures.ts";

const BOTH = [CREATED, UPDATED];
const SUBSCRIPTIONS = [...BOTH, DELETED];
const HANDLED = [...SUBSCRIPTIONS, FAILED];
const PERIOD_END = "data.object.current_period_end";
const ITEM = "data.object.items.data.0";
const YEAR_2000 = 946_684_800;
const YEAR_2200 = 7_258_118_400;

function parse(event: object | string, mode: EventMode = "any"): ParsedEvent {
  const text = typeof event === "string" ? event : JSON.stringify(event);
  return parseEvent(text, { nowSeconds: NOW, toleranceSeconds: 60, mode });
}

/** Returns why a body is refused, after a check that no value is repeated. */
function fault(body: object | string, code: ErrorCode = "event_invalid") {
  const error = assertThrows(() => parse(body), DeliveryError);
  assertEquals(error.code, code, JSON.stringify(body).slice(0, 200));
  assert(!error.message.includes("LEAKED"), error.message);
  return error.message;
}

Deno.test("parseEvent() takes the longest ids, and all the times that are allowed", () => {
  const ids = [..."a\u{1f600}"].map((letter) => letter.repeat(255));
  for (const id of [...ids, " \u00a0x ", "ключ", "'; drop --", "<b>{{7}}"]) {
    for (const created of [NOW + 60, YEAR_2000, undefined]) {
      const parsed = parse(event(DELETED, { id, created }));
      assert(parsed.handled);
      const { event_id, occurred_at } = parsed.event;
      const time = created && new Date(created * 1000).toISOString();
      assertEquals([event_id, occurred_at], [id, time ?? null]);
    }
  }
  for (const type of BOTH) {
    assert(parse(event(type, { [PERIOD_END]: YEAR_2200 })).handled);
  }
});

const OBJECTS = [true, "", "LEAKED", -1, 1.5, [], ["LEAKED"]];

/** The fields that are checked, in which types, and what is refused in them. */
const CHECKED: [path: string, types: string[], bad: unknown[]][] = [
  ["id", HANDLED, [...ABSENT, ...NO_ID]],
  ["created", HANDLED, [null, ...NO_TIME, NOW + 61]],
  ["data", HANDLED, [...ABSENT, ...OBJECTS]],
  ["data.object", HANDLED, [...ABSENT, ...OBJECTS]],
  ["data.object.id", SUBSCRIPTIONS, [...ABSENT, ...NO_ID]],
  ["data.object.metadata", [CREATED], OBJECTS],
  ["data.object.metadata.accountId", [CREATED], NO_ID],
  ["data.object.status", [UPDATED], [...ABSENT, ...NO_ID]],
  ["data.object.items", BOTH, [...ABSENT, ...OBJECTS]],
  ["data.object.items.data", BOTH, [...ABSENT, true, "LEAKED", 1, [], {}]],
  [ITEM, BOTH, [null, ...OBJECTS]],
  [`${ITEM}.price`, BOTH, [...ABSENT, ...OBJECTS]],
  [`${ITEM}.price.id`, BOTH, [...ABSENT, ...NO_ID]],
  [PERIOD_END, BOTH, [...ABSENT, ...NO_TIME]],
];
Deno.test("parseEvent() names a field that is missing or malformed, and not its value", () => {
  for (const [path, types, bad] of CHECKED) {
    for (const type of types) {
      for (const value of bad) {
        const body = event(type, { [path]: value });
        assert(fault(body).startsWith(path.replace(".0", "[0]")), fault(body));
      }
    }
  }
});

const WORDS: [path: string, value: unknown, says: string][] = [
  ["id", undefined, " is missing"],
  ["type", undefined, " is missing"],
  ["type", " \t\n", ": must be a string that is not blank"],
  ["data", [], ": must be an object"],
  ["data.object.id", null, ": must be a string"],
  ["data.object.id", "\u2028a", ": must not contain control characters or "],
  ["data.object.id", " ", ": must not be blank"],
  ["data.object.id", "x".repeat(256), ": must not be longer than 255 char"],
  ["data.object.items.data", {}, ": must be a list"],
  ["data.object.items.data", [], "[0] is missing"],
  [PERIOD_END, 2 ** 60, ": must be a whole number under 2^53"],
  [PERIOD_END, NOW * 1000, ": must not be after 2200, in Unix seconds"],
  ["created", "now", ": must be a number"],
  ["created", 1, ": must not be before 2000, in Unix seconds"],
  ["created", NOW + 61, ": must not be more than 60 s ahead of the receiver"],
];
Deno.test("parseEvent() says what is wrong with a field in plain words", () => {
  for (const [path, value, says] of WORDS) {
    const message = fault(event(CREATED, { [path]: value }));
    assert(message.startsWith(path + says), message);
  }
  const blank = "\n".repeat(256);
  const worse = { id: blank, "data.object.id": blank, created: 1.5 };
  assertEquals(fault(event(CREATED, worse)).split("; ").length, 5);
});

const below = (subscription: unknown) => ({
  parent: { subscription_details: { subscription } },
});
Deno.test("parseEvent() reads both shapes of subscriptions and invoices", () => {
  const ofItem = `${ITEM}.current_period_end`;
  for (const type of BOTH) {
    const moved = event(type, { [PERIOD_END]: null, [ofItem]: NOW });
    const own = event(type, { [PERIOD_END]: NOW });
    assertEquals(parse(moved), parse(own));
    const spoilt = event(type, { [PERIOD_END]: null, [ofItem]: 1.5 });
    assert(fault(spoilt).startsWith(ofItem.replace(".0", "[0]")));
  }
  const places = [
    { subscription: "sub_1", ...below("sub_2") },
    { subscription: { id: "sub_1" } },
    { subscription: null, ...below("sub_1") },
    below({ id: "sub_1" }),
  ];
  for (const object of places) {
    const parsed = parse(event(FAILED, { "data.object": object }));
    assertEquals(parsed.handled && parsed.event.subscription_id, "sub_1");
  }
  for (const odd of ["", " ", 1, true, [], {}, { id: null }, "LEAKED\n"]) {
    const place = "parent.subscription_details.subscription";
    const cases = { subscription: { subscription: odd }, [place]: below(odd) };
    for (const [path, object] of Object.entries(cases)) {
      const message = fault(event(FAILED, { "data.object": object }));
      const end = typeof odd === "object" ? ".id" : "";
      assert(message.startsWith(`data.object.${path}${end}`), message);
    }
  }
});

Deno.test("parseEvent() refuses bodies that are no event", () => {
  const cases: [code: ErrorCode, says: string, ...bodies: string[]][] = [
    ["body_empty", "The body is empty", ""],
    ["body_not_json", "The body is not valid JSON", " ", '{"id":"LEAKED"'],
    ["body_not_json", "The body is not valid JSON", '{"id":"LEAKED"} x'],
    ["body_not_json", "The body is not valid JSON", "[".repeat(100_000)],
    ["event_invalid", "type is missing", "[]", '"text"', "1", "null", "{}"],
    ["event_invalid", "type is missing", '{"__proto__":{"type":"x"}}'],
    ["event_invalid", "type: must be", '{"type":null}', '{"type":[1]}'],
  ];
  for (const [code, says, ...bodies] of cases) {
    for (const body of bodies) assert(fault(body, code).startsWith(says), body);
  }
  // The decoder keeps no state between bodies.
  for (let i = 0; i < 2; i++) {
    const broken = Uint8Array.from([0x7b, 0xe2, 0x82]);
    const { code } = assertThrows(() => decodeBody(broken), DeliveryError);
    assertEquals(code, "body_not_text");
    const marked = Uint8Array.from([0xef, 0xbb, 0xbf, 0x7b, 0x7d]);
    assertEquals(decodeBody(marked), "{}");
  }
});

const NONE = { mode: "any", object: "event" };
const V2 = { object: "v2.core.event" };
type Ignored = [reason: string, changes: object, ...types: string[]];
const IGNORED: Ignored[] = [
  ["not_handled", { data: [null], created: "x" }, "invoice.paid", "ping"],
  ["not_handled", {}, "constructor", "__proto__", `${FAILED} `, "v10.x"],
  ["not_handled", {}, FAILED.toUpperCase(), "v3.x", "a.v1.created", "v1"],
  // One-off invoices.
  ["not_handled", { data: { object: {} } }, FAILED],
  ["not_handled", { data: { object: { parent: { type: "x" } } } }, FAILED],
  ["not_handled", { data: { object: below(null) } }, FAILED],
  ["thin", { data: undefined }, `v1.${CREATED}`, "v2.core.account.updated"],
  ["thin", V2, "some.type", `v1.${DELETED}`],
  ["other_mode", { livemode: false, mode: "live" }, ...HANDLED, "ping"],
  ["other_mode", { livemode: true, mode: "test" }, ...HANDLED, "ping"],
];
Deno.test("parseEvent() says why an event has no effect, whatever else is in it", () => {
  for (const [reason, changes, ...types] of IGNORED) {
    for (const type of types) {
      const { mode, ...more } = { ...NONE, ...changes };
      const parsed = parse({ id: "evt_1", type, ...more }, mode as EventMode);
      const expected = { handled: false, reason, type, id: "evt_1" };
      assertEquals<unknown>(parsed, expected);
    }
  }
  // An event that does not say its mode belongs to either.
  const odd = [undefined, null, "false", 0, {}];
  const modes = { live: [true], test: [false], any: [true, false] };
  for (const [mode, own] of Object.entries(modes)) {
    for (const livemode of [...own, ...odd]) {
      const parsed = parse(event(DELETED, { livemode }), mode as EventMode);
      assert(parsed.handled, `${mode}: ${livemode}`);
    }
  }
});

Deno.test("isUnmapped() means creations that are invalid and events that are unknown", () => {
  const none = { "data.object.metadata": {} };
  const cases: [code: ErrorCode, event: object, expected: boolean][] = [
    ["event_invalid", event(CREATED, none), true],
    ["event_invalid", event(UPDATED, none), false],
    ["event_invalid", event(CREATED), false],
    ["subscription_unknown", event(UPDATED, none), true],
    ["subscription_unknown", event(UPDATED), false],
    ["creation_pending", event(UPDATED, none), false],
    ["database_unavailable", event(CREATED, none), false],
  ];
  for (const [code, one, expected] of cases) {
    const error = new DeliveryError(code, "");
    assertEquals(isUnmapped(error, JSON.stringify(one)), expected, code);
  }
});
