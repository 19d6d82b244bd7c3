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
import { edited } from "../../support/edited.ts";

const NOW = 1_793_700_000;
const CREATED = "customer.subscription.created";
const UPDATED = "customer.subscription.updated";
const DELETED = "customer.subscription.deleted";
const FAILED = "invoice.payment_failed";
const BOTH = [CREATED, UPDATED];
const SUBSCRIPTIONS = [...BOTH, DELETED];
const HANDLED = [...SUBSCRIPTIONS, FAILED];
const PERIOD_END = "data.object.current_period_end";
const ITEM = "data.object.items.data.0";

/** An event as the specification draws it, edited. */
function event(type: string, changes: Record<string, unknown> = {}): object {
  const object = type === FAILED ? { subscription: "sub_1" } : {
    id: "sub_1",
    status: "active",
    metadata: { accountId: "acc_1" },
    items: { data: [{ price: { id: "price_1" } }] },
    current_period_end: NOW,
  };
  const whole = { id: "evt_1", type, created: NOW - 60, data: { object } };
  return edited(whole, changes);
}

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

Deno.test("parseEvent() reads each handled type", () => {
  const longest = ["a".repeat(255), "\u{1f600}".repeat(255)];
  const ids = [...longest, " \u00a0x ", "ключ", "'; drop --", "<b>{{7}}"];
  for (const type of HANDLED) {
    for (const created of [NOW - 60, NOW + 60, 946_684_800, undefined]) {
      for (const id of ids) {
        const parsed = parse(event(type, { id, created }));
        assert(parsed.handled);
        const { event_id, occurred_at, subscription_id } = parsed.event;
        const time = created && new Date(created * 1000).toISOString();
        assertEquals([parsed.event.type, event_id], [type, id]);
        assertEquals([occurred_at, subscription_id], [time ?? null, "sub_1"]);
      }
    }
  }
});

const ABSENT = [undefined, null];
const IDS = [
  ...[true, "", " \t", -1, 1.5, [], {}, ["LEAKED"], { LEAKED: 1 }],
  ...["LEAKED\0", "LEAKED\n", "\u001b[2J", "\u007f", "a\u0085", "\u00a0\u3000"],
  ...["a\u2028b", "a\u2029b", "\ud800", "a\udc00b", "LEAKED".padEnd(256, "x")],
  "\u{1f600}".repeat(256),
];
const OBJECTS = [true, "", "LEAKED", -1, 1.5, [], ["LEAKED"]];
/** In JSON's own digits: some of them JSON.stringify() does not write. */
const TIMES = [
  ...["1e400", "-1e400", "9007199254740993", "1796212800.5", "1796212800000"],
  ...["0", "-1", "-0", "946684799", "7258118401", '"1796212800"', "null"],
  ...['"LEAKED"', "[1796212800]", "{}", "true"],
].map((digits) => ({ digits }));

/** The fields that are checked, in which types, and what is refused in them. */
const CHECKED: [path: string, types: string[], bad: unknown[]][] = [
  ["id", HANDLED, [...ABSENT, ...IDS]],
  ["created", HANDLED, [...TIMES, { digits: `${NOW + 61}` }]],
  ["data", HANDLED, [...ABSENT, ...OBJECTS]],
  ["data.object", HANDLED, [...ABSENT, ...OBJECTS]],
  ["data.object.id", SUBSCRIPTIONS, [...ABSENT, ...IDS]],
  ["data.object.metadata", [CREATED], OBJECTS],
  ["data.object.metadata.accountId", [CREATED], IDS],
  ["data.object.status", [UPDATED], [...ABSENT, ...IDS]],
  ["data.object.items", BOTH, [...ABSENT, ...OBJECTS]],
  ["data.object.items.data", BOTH, [...ABSENT, true, "LEAKED", 1, [], {}]],
  [ITEM, BOTH, [null, ...OBJECTS]],
  [`${ITEM}.price`, BOTH, [...ABSENT, ...OBJECTS]],
  [`${ITEM}.price.id`, BOTH, [...ABSENT, ...IDS]],
  [PERIOD_END, BOTH, [undefined, ...TIMES]],
];
for (const [path, types, bad] of CHECKED) {
  Deno.test(`parseEvent() names ${path} if it is missing or malformed, and not its value`, () => {
    for (const type of types) {
      for (const value of bad) {
        const digits = Object(value).digits;
        const changes = { [path]: digits === undefined ? value : "DIGITS" };
        const text = JSON.stringify(event(type, changes))
          .replace('"DIGITS"', digits);
        const named = path.replace(".0", "[0]");
        assert(fault(text).startsWith(named), `${fault(text)} for ${text}`);
      }
    }
  });
}

Deno.test("parseEvent() says what is wrong with a field in plain words", () => {
  const cases: [path: string, value: unknown, says: string][] = [
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
    [PERIOD_END, undefined, " is missing"],
    [PERIOD_END, 2 ** 60, ": must be a whole number under 2^53"],
    [PERIOD_END, NOW * 1000, ": must not be after 2200, in Unix seconds"],
    ["created", "now", ": must be a number"],
    ["created", 1, ": must not be before 2000, in Unix seconds"],
    ["created", NOW + 61, ": must not be more than 60 s ahead of the receiver"],
  ];
  for (const [path, value, says] of cases) {
    const message = fault(event(CREATED, { [path]: value }));
    assert(message.startsWith(path + says), message);
  }
  const several = { id: 1, "data.object": { items: { data: [{}] } } };
  assertEquals(fault(event(CREATED, several)).split("; "), [
    "id: must be a string",
    "data.object.id is missing",
    "data.object.items.data[0].price is missing",
  ]);
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
    const inItem = { [PERIOD_END]: undefined, [ofItem]: NOW };
    assertEquals(parse(event(type, inItem)), parse(event(type)));
    const spoilt = event(type, { [PERIOD_END]: null, [ofItem]: 1.5 });
    const named = ofItem.replace(".0", "[0]");
    assert(fault(spoilt).startsWith(named), fault(spoilt));
    assert(parse(event(type, { [PERIOD_END]: 7_258_118_400 })).handled);
  }
  const places = [
    { subscription: { id: "sub_1" } },
    { subscription: null, ...below("sub_1") },
    below({ id: "sub_1" }),
    { subscription: "sub_1", ...below("sub_2") },
  ];
  for (const object of places) {
    const moved = event(FAILED, { "data.object": object });
    assertEquals(parse(moved), parse(event(FAILED)));
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
});

Deno.test("parseEvent() says why an event has no effect, whatever else is in it", () => {
  const v2 = { object: "v2.core.event" };
  const cases: [reason: string, changes: object, ...types: string[]][] = [
    ["not_handled", { data: [null], created: "x" }, "invoice.paid", "ping"],
    ["not_handled", {}, "constructor", "__proto__", `${FAILED} `, "v10.x"],
    ["not_handled", {}, FAILED.toUpperCase(), "v3.x", "a.v1.created", "v1"],
    // One-off invoices.
    ["not_handled", { data: { object: {} } }, FAILED],
    ["not_handled", { data: { object: { parent: { type: "x" } } } }, FAILED],
    ["not_handled", { data: { object: below(null) } }, FAILED],
    ["thin", { data: undefined }, `v1.${CREATED}`, "v2.core.account.updated"],
    ["thin", v2, "some.type", `v1.${DELETED}`],
  ];
  for (const [reason, changes, ...types] of cases) {
    for (const type of types) {
      assertEquals<unknown>(
        parse({ id: "evt_1", object: "event", ...changes, type }),
        { handled: false, reason, type, id: "evt_1" },
      );
    }
  }
});

Deno.test("parseEvent() leaves out events of the other mode, unless they do not say", () => {
  const odd = [undefined, null, "false", 0, {}];
  const cases: [mode: EventMode, wanted: unknown[], other: boolean[]][] = [
    ["live", [true, ...odd], [false]],
    ["test", [false, ...odd], [true]],
    ["any", [true, false, ...odd], []],
  ];
  for (const [mode, wanted, other] of cases) {
    for (const livemode of wanted) {
      assert(parse(event(DELETED, { livemode }), mode).handled, mode);
    }
    for (const livemode of other) {
      for (const type of [...HANDLED, "ping"]) {
        assertEquals<unknown>(
          parse({ id: "evt_1", type, livemode }, mode),
          { handled: false, reason: "other_mode", type, id: "evt_1" },
        );
      }
    }
  }
});

Deno.test("decodeBody() drops a byte order mark, and refuses what is not UTF-8", () => {
  for (let i = 0; i < 2; i++) {
    const broken = Uint8Array.from([0x7b, 0xe2, 0x82]);
    const { code } = assertThrows(() => decodeBody(broken), DeliveryError);
    assertEquals(code, "body_not_text");
    const marked = Uint8Array.from([0xef, 0xbb, 0xbf, 0x7b, 0x7d]);
    assertEquals(decodeBody(marked), "{}");
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
    ["creation_pending", event(CREATED, none), false],
    ["database_unavailable", event(CREATED, none), false],
  ];
  for (const [code, one, expected] of cases) {
    const error = new DeliveryError(code, "");
    assertEquals(isUnmapped(error, JSON.stringify(one)), expected, code);
  }
});
