import { assert, assertEquals, assertThrows } from "@std/assert";
import fc from "fast-check";
import { DeliveryError } from "../../../supabase/functions/_shared/billing/errors.ts";
import {
  decodeBody,
  type ParsedEvent,
  parseEvent,
} from "../../../supabase/functions/_shared/billing/parse_event.ts";

const NOW = 1_793_700_000;
const TOLERANCE = 60;
const PERIOD_END = 1_796_212_800;
const YEAR_2000 = 946_684_800;

type Tree = Record<string, unknown>;

/**
 * A handled event as the specification draws it, with values put where the
 * paths say.
 */
function event(type: string, edits: Record<string, unknown> = {}): Tree {
  const one: Tree = {
    id: "evt_1",
    type,
    created: NOW - 60,
    data: {
      object: type.startsWith("invoice.")
        ? { id: "in_1", subscription: "sub_1" }
        : {
          id: "sub_1",
          status: "active",
          metadata: { accountId: "acc_1" },
          items: { data: [{ price: { id: "price_1" } }] },
          current_period_end: PERIOD_END,
        },
    },
  };
  for (const [path, value] of Object.entries(edits)) {
    const keys = path.replace(/\[(\d)\]/g, ".$1").split(".");
    const last = keys.pop()!;
    const parent = keys.reduce((tree, key) => tree[key] as Tree, one);
    parent[last] = value;
  }
  return one;
}

const CREATED = "customer.subscription.created";
const UPDATED = "customer.subscription.updated";
const DELETED = "customer.subscription.deleted";
const PAYMENT_FAILED = "invoice.payment_failed";
const HANDLED = [CREATED, UPDATED, DELETED, PAYMENT_FAILED];

function parse(value: unknown): ParsedEvent {
  return parseText(JSON.stringify(value));
}

function parseText(text: string): ParsedEvent {
  return parseEvent(text, { nowSeconds: NOW, toleranceSeconds: TOLERANCE });
}

/** Passes when it is refused; gives the message. */
function assertRefused(text: string, code: DeliveryError["code"]): string {
  const error = assertThrows(() => parseText(text), DeliveryError);
  assertEquals(error.code, code, text.slice(0, 200));
  return error.message;
}

/** Passes when the event is refused and the message names the path. */
function assertInvalid(value: unknown, path: string): void {
  const text = typeof value === "string" ? value : JSON.stringify(value);
  const message = assertRefused(text, "event_invalid");
  const [first = ""] = message.split("; ");
  assert(
    first === `${path} is missing` || first.startsWith(`${path}: must `),
    `"${message}" does not begin with ${path}`,
  );
}

Deno.test("parseEvent() says what is wrong with a field in plain words", () => {
  const cases: [edits: Record<string, unknown>, says: string][] = [
    [{ id: undefined }, "id is missing"],
    [{ type: undefined }, "type is missing"],
    [{ data: undefined }, "data is missing"],
    [{ "data.object.id": null }, "data.object.id: must be a string"],
    [
      { "data.object.metadata.accountId": " " },
      "data.object.metadata.accountId: must not be blank",
    ],
    [
      { "data.object.items": { data: [] } },
      "data.object.items.data[0] is missing",
    ],
    [
      { "data.object.current_period_end": undefined },
      "data.object.current_period_end is missing",
    ],
    [
      { "data.object.current_period_end": 2 ** 60 },
      "data.object.current_period_end: must be a whole number under 2^53",
    ],
    [
      { "data.object.items.data": {} },
      "data.object.items.data: must be a list",
    ],
    [{ created: "now" }, "created: must be a number"],
    [{ created: 1 }, "created: must not be before 2000, in Unix seconds"],
    [
      { id: "x".repeat(256) },
      "id: must not be longer than 255 characters",
    ],
  ];
  for (const [edits, says] of cases) {
    const text = JSON.stringify(event(CREATED, edits));
    const [first] = assertRefused(text, "event_invalid").split("; ");
    assertEquals(first, says);
  }
});

for (const type of HANDLED) {
  Deno.test(`parseEvent() reads ${type}`, () => {
    const parsed = parse(event(type));
    assert(parsed.handled);
    assertEquals(parsed.event.type, type);
    assertEquals(parsed.event.event_id, "evt_1");
    assertEquals(parsed.event.subscription_id, "sub_1");
    assertEquals(
      parsed.event.occurred_at,
      new Date((NOW - 60) * 1000).toISOString(),
    );
  });
}

Deno.test("parseEvent() leaves a missing account to the database", () => {
  const missing: Record<string, unknown>[] = [
    { "data.object.metadata": undefined },
    { "data.object.metadata": null },
    { "data.object.metadata": {} },
    { "data.object.metadata": { accountid: "acc_1" } },
    { "data.object.metadata.accountId": undefined },
    { "data.object.metadata.accountId": null },
  ];
  for (const edits of missing) {
    const parsed = parse(event(CREATED, edits));
    assert(parsed.handled && parsed.event.type === CREATED);
    assertEquals(parsed.event.account_id, null, JSON.stringify(edits));
  }
});

Deno.test("parseEvent() converts seconds as the specification says", () => {
  const parsed = parse(event(CREATED));
  assert(parsed.handled && parsed.event.type === CREATED);
  assertEquals(
    parsed.event.report.current_period_end,
    new Date(PERIOD_END * 1000).toISOString(),
  );
});

Deno.test("parseEvent() refuses an empty body", () => {
  assertRefused("", "body_empty");
});

Deno.test("parseEvent() refuses malformed JSON, without repeating it", () => {
  const texts = [
    " ",
    "{",
    '{"id":"evt_secret"',
    '{"id":"evt_secret",}',
    "{'id':'evt_secret'}",
    '{"id":"evt_secret"} trailing',
    "evt_secret",
    "undefined",
    "NaN",
    '{"a":01}',
    '{"a":"\n"}',
    "\ufeff\ufeff{}",
    "[".repeat(100_000),
  ];
  for (const text of texts) {
    const message = assertRefused(text, "body_not_json");
    assert(!message.includes("evt_secret"), message);
  }
});

Deno.test("parseEvent() refuses what is no event", () => {
  const values = [
    [],
    [event(CREATED)],
    "text",
    "customer.subscription.created",
    1,
    null,
    true,
    {},
    { id: "evt_1" },
    { id: "evt_1", type: null },
    { id: "evt_1", type: 1 },
    { id: "evt_1", type: [CREATED] },
    { id: "evt_1", type: { type: CREATED } },
    { id: "evt_1", type: "" },
    { id: "evt_1", type: " \t\n" },
  ];
  for (const value of values) assertInvalid(JSON.stringify(value), "type");
});

Deno.test("parseEvent() ignores a type that is not handled, with any data at all", () => {
  const handled = new Set(HANDLED);
  const json = fc.jsonValue();
  fc.assert(fc.property(fc.string(), json, json, (type, data, id) => {
    fc.pre(!handled.has(type) && type.trim() !== "");
    const text = JSON.stringify({ type, id, data });
    const parsed = parseText(text);
    assert(!parsed.handled);
    assertEquals<unknown>(
      { type: parsed.type, id: parsed.id },
      { type, id: JSON.parse(text).id },
    );
  }));
  const others = [
    "payment_intent.payment_failed",
    "customer.subscription.trial_will_end",
    "invoice.paid",
    "invoice.payment_failed ",
    "INVOICE.PAYMENT_FAILED",
    "constructor",
    "__proto__",
  ];
  for (const type of others) {
    assertEquals(parse({ type }).handled, false, type);
    assertEquals(parse({ type, id: "evt_1", created: "x" }).handled, false);
  }
});

/** The required fields, and whose they are. */
const REQUIRED: [path: string, types: string[]][] = [
  ["id", HANDLED],
  ["data", HANDLED],
  ["data.object", HANDLED],
  ["data.object.id", [CREATED, UPDATED, DELETED]],
  ["data.object.metadata", [CREATED]],
  ["data.object.metadata.accountId", [CREATED]],
  ["data.object.status", [UPDATED]],
  ["data.object.items", [CREATED, UPDATED]],
  ["data.object.items.data", [CREATED, UPDATED]],
  ["data.object.items.data[0]", [CREATED, UPDATED]],
  ["data.object.items.data[0].price", [CREATED, UPDATED]],
  ["data.object.items.data[0].price.id", [CREATED, UPDATED]],
  ["data.object.current_period_end", [CREATED, UPDATED]],
];
/** Of these only what is malformed is refused, not what is missing. */
const OPTIONAL = /^data\.object\.metadata(?:\.accountId)?$/;
const IDENTIFIERS =
  /^(?:id|data\.object\.(?:id|status|metadata\.accountId|items\.data\[0\]\.price\.id))$/;

for (const [path, types] of REQUIRED) {
  const faults = OPTIONAL.test(path) ? "" : "missing or ";
  Deno.test(`parseEvent() refuses an event whose ${path} is ${faults}of another type`, () => {
    const rubbish: unknown[] = [true, "", "text", -1, 1.5, []];
    if (!OPTIONAL.test(path)) rubbish.push(undefined, null);
    if (IDENTIFIERS.test(path)) rubbish.push({}, [["text"]]);
    for (const type of types) {
      for (const value of rubbish) {
        if (value === "text" && IDENTIFIERS.test(path)) continue;
        const text = JSON.stringify(event(type, { [path]: value }));
        const message = assertRefused(text, "event_invalid");
        assert(
          message.startsWith(path),
          `${type} with ${JSON.stringify(value)}: "${message}"`,
        );
      }
    }
  });
}

for (const [path, types] of REQUIRED) {
  if (!IDENTIFIERS.test(path)) continue;
  Deno.test(`parseEvent() refuses text in ${path} that cannot be stored or shown`, () => {
    const bad = [
      " ",
      "\t",
      "a\u0000b",
      "a\nb",
      "a\r\nb",
      "\u001b[31m",
      "a\u2028b",
      "\ud800",
      "\udc00x",
      "a".repeat(256),
      "a".repeat(100_000),
    ];
    for (const type of types) {
      for (const value of bad) {
        assertInvalid(event(type, { [path]: value }), path);
      }
      const good = ["a".repeat(255), "'; drop table x; --", "<b>{{x}}</b>"];
      for (const value of good) {
        const parsed = parse(event(type, { [path]: value }));
        assert(parsed.handled);
        const { report, ...rest } = parsed.event;
        const values = [...Object.values(rest), ...Object.values(report)];
        assert(values.includes(value), path);
      }
    }
  });
}

/** An event with a number that JSON.stringify would not write. */
function withNumber(path: string, digits: string): string {
  return JSON.stringify(event(UPDATED, { [path]: "NUMBER" }))
    .replace('"NUMBER"', digits);
}

const PERIOD_END_PATH = "data.object.current_period_end";
const IMPOSSIBLE_TIMES = [
  "1e400",
  "1e100000",
  "-1e400",
  "9007199254740993",
  "1796212800.5",
  "1796212800000",
  "0",
  "-1",
  "-0",
  `${YEAR_2000 - 1}`,
  "7258118401",
  '"1796212800"',
  '"infinity"',
  '"2026-12-02T12:00:00Z"',
  "[1796212800]",
  "{}",
  "true",
];

Deno.test("parseEvent() refuses an impossible period end", () => {
  for (const digits of IMPOSSIBLE_TIMES) {
    assertInvalid(
      withNumber(PERIOD_END_PATH, digits),
      PERIOD_END_PATH,
    );
  }
  for (const digits of [`${YEAR_2000}`, "7258118400", "1.7962128e9"]) {
    assert(parseText(withNumber(PERIOD_END_PATH, digits)).handled);
  }
});

Deno.test("parseEvent() refuses an impossible time of the event", () => {
  for (const digits of [...IMPOSSIBLE_TIMES, `${NOW + TOLERANCE + 1}`]) {
    assertInvalid(withNumber("created", digits), "created");
  }
  for (const seconds of [YEAR_2000, NOW, NOW + TOLERANCE]) {
    assert(parseText(withNumber("created", `${seconds}`)).handled);
  }
});

Deno.test("parseEvent() needs no time of the event", () => {
  for (const type of HANDLED) {
    const parsed = parse(event(type, { created: undefined }));
    assert(parsed.handled);
    assertEquals(parsed.event.occurred_at, null);
  }
});

Deno.test("parseEvent() reads both shapes of a subscription", () => {
  for (const type of [CREATED, UPDATED]) {
    const moved = event(type, {
      "data.object.current_period_end": undefined,
      "data.object.items.data[0].current_period_end": PERIOD_END,
    });
    assertEquals(parse(moved), parse(event(type)));

    const spoilt = event(type, {
      "data.object.current_period_end": null,
      "data.object.items.data[0].current_period_end": 1.5,
    });
    assertInvalid(spoilt, "data.object.items.data[0].current_period_end");
  }
});

Deno.test("parseEvent() reads both shapes of an invoice", () => {
  const places = [
    { subscription: "sub_1" },
    { subscription: { id: "sub_1" } },
    { parent: { subscription_details: { subscription: "sub_1" } } },
    { parent: { subscription_details: { subscription: { id: "sub_1" } } } },
    {
      subscription: "sub_1",
      parent: { subscription_details: { subscription: "sub_2" } },
    },
  ];
  for (const place of places) {
    const moved = event(PAYMENT_FAILED, {
      "data.object": { id: "in_1", ...place },
    });
    assertEquals(parse(moved), parse(event(PAYMENT_FAILED)));
  }
});

Deno.test("parseEvent() ignores a failed invoice without a subscription", () => {
  for (const parent of [undefined, null, { type: "quote_details" }]) {
    const oneOff = event(PAYMENT_FAILED, {
      "data.object": { id: "in_1", subscription: null, parent },
    });
    assertEquals(parse(oneOff), {
      handled: false,
      reason: "not_handled",
      type: PAYMENT_FAILED,
      id: "evt_1",
    });
  }
});

Deno.test("parseEvent() refuses a failed invoice whose subscription is rubbish", () => {
  for (const rubbish of ["", " ", 1, true, [], {}, { id: null }, "a\nb"]) {
    const end = typeof rubbish === "object" ? ".id" : "";
    assertInvalid(
      event(PAYMENT_FAILED, { "data.object.subscription": rubbish }),
      `data.object.subscription${end}`,
    );
    assertInvalid(
      event(PAYMENT_FAILED, {
        "data.object": {
          parent: { subscription_details: { subscription: rubbish } },
        },
      }),
      `data.object.parent.subscription_details.subscription${end}`,
    );
  }
});

/** Fields that the handler of the type does not read if the others are there. */
const UNREAD: Record<string, string[]> = {
  [CREATED]: [
    "data.object.status",
    "data.object.items.data[0].current_period_end",
    "data.object.items.data[0].quantity",
    "data.object.items.data[1]",
    "data.previous_attributes",
  ],
  [UPDATED]: [
    "data.object.metadata",
    "data.object.items.data[0].current_period_end",
    "data.object.items.data[0].quantity",
    "data.object.items.data[1]",
  ],
  [DELETED]: [
    "data.object.status",
    "data.object.metadata",
    "data.object.items",
    "data.object.current_period_end",
    "data.previous_attributes",
  ],
  [PAYMENT_FAILED]: [
    "data.object.id",
    "data.object.parent",
    "data.object.status",
    "data.previous_attributes",
  ],
};

Deno.test("parseEvent() reads only what a handler uses", () => {
  const everywhere = [
    "object",
    "api_version",
    "data.extra",
    "data.object.extra",
    "data.object.customer",
  ];
  const rubbish = ["a\u0000b", "\ud800", 1e300, null, [[[]]], {}, "<b>"];
  for (const type of HANDLED) {
    for (const path of [...everywhere, ...UNREAD[type] ?? []]) {
      for (const value of rubbish) {
        const parsed = parse(event(type, { [path]: value }));
        assert(parsed.handled, `${type}: ${path} ${JSON.stringify(value)}`);
        assertEquals(parsed.event.subscription_id, "sub_1");
      }
    }
  }
});

Deno.test("parseEvent() takes rubbish in the tie-breaking hint for no hint", () => {
  fc.assert(fc.property(fc.jsonValue(), (previous) => {
    const edits = { "data.previous_attributes": previous };
    assert(parse(event(UPDATED, edits)).handled);
  }));
});

Deno.test("parseEvent() takes the last of duplicate keys", () => {
  const text = JSON.stringify(event(DELETED)).replace(
    '"id":"sub_1"',
    '"id":1,"id":"sub_2"',
  );
  const parsed = parseText(text);
  assert(parsed.handled);
  assertEquals(parsed.event.subscription_id, "sub_2");
});

Deno.test("parseEvent() merges no key into anything", () => {
  const text = JSON.stringify(event(DELETED)).replace(
    '"id":"evt_1"',
    '"__proto__":{"polluted":1,"id":"evt_2"},"constructor":{"prototype":{"polluted":1}},"id":"evt_1"',
  );
  const parsed = parseText(text);
  assert(parsed.handled);
  assertEquals(parsed.event.event_id, "evt_1");
  assertEquals(({} as Record<string, unknown>).polluted, undefined);

  const onlyInherited = '{"__proto__":' + JSON.stringify(event(DELETED)) + "}";
  assertRefused(onlyInherited, "event_invalid");
  const inner = JSON.stringify(event(DELETED))
    .replace('"id":"sub_1"', '"__proto__":{"id":"sub_1"}');
  assertInvalid(inner, "data.object.id");
});

Deno.test("parseEvent() stands any depth in a field that nothing reads", () => {
  const deep = "[".repeat(100_000) + "]".repeat(100_000);
  for (const type of HANDLED) {
    const text = JSON.stringify(event(type, {
      "data.object.deep": "DEEP",
      "data.previous_attributes": { deep: "DEEP" },
    })).replaceAll('"DEEP"', deep);
    assert(parseText(text).handled);
  }
  const used = JSON.stringify(event(DELETED, { id: "DEEP" }))
    .replace('"DEEP"', deep);
  assertInvalid(used, "id");
});

Deno.test("parseEvent() names every bad field, up to five", () => {
  const empty = event(CREATED, {
    id: 1,
    "data.object": { items: { data: [{}] } },
  });
  const message = assertRefused(JSON.stringify(empty), "event_invalid");
  assertEquals(message.split("; ").map((fault) => fault.split(/:? /)[0]), [
    "id",
    "data.object.id",
    "data.object.items.data[0].price",
  ]);
  const worse = event(CREATED, {
    id: null,
    created: null,
    "data.object": {
      id: "\n",
      items: { data: [{ price: {} }] },
      metadata: {},
    },
  });
  const long = assertRefused(JSON.stringify(worse), "event_invalid");
  assertEquals(long.split("; ").length, 5);
});

Deno.test("parseEvent() never repeats a value", () => {
  const mark = "LEAKED";
  const values = [
    `${mark}\n`,
    `${mark}${"a".repeat(256)}`,
    { [mark]: mark },
    [mark],
    `\u0000${mark}`,
  ];
  for (const [path, types] of REQUIRED) {
    for (const type of types) {
      // An invoice may be an object without any field that is read.
      if (path === "data.object" && type === PAYMENT_FAILED) continue;
      for (const value of values) {
        // So may metadata.
        if (path === "data.object.metadata" && value === values[2]) continue;
        const text = JSON.stringify(event(type, { [path]: value }));
        const message = assertRefused(text, "event_invalid");
        assert(!message.includes(mark), message);
      }
    }
  }
  const dated = withNumber("created", "1987654321987");
  assert(!assertRefused(dated, "event_invalid").includes("1987654321987"));
});

Deno.test("parseEvent() throws nothing but its own errors, whatever the JSON", () => {
  const cases = REQUIRED.flatMap(([path, types]) =>
    types.map((type) => ({ type, path }))
  );
  fc.assert(fc.property(
    fc.constantFrom(...cases),
    fc.jsonValue(),
    fc.oneof(fc.constant(NOW), fc.jsonValue()),
    ({ type, path }, value, created) => {
      const text = JSON.stringify(event(type, { [path]: value, created }));
      try {
        parseText(text);
      } catch (error) {
        assert(error instanceof DeliveryError, String(error));
        assertEquals(error.code, "event_invalid");
      }
    },
  ));
});

const OTHER_MODES = [["live", false], ["test", true]] as const;

Deno.test("parseEvent() leaves out events of the mode that is not wanted", () => {
  for (const [mode, livemode] of OTHER_MODES) {
    for (const type of [...HANDLED, "payment_intent.payment_failed"]) {
      // Not validated: nobody here has to fix an event of the other mode.
      for (const one of [event(type), { id: "evt_1", type }]) {
        assertEquals(
          parseEvent(JSON.stringify({ ...one, livemode }), {
            nowSeconds: NOW,
            toleranceSeconds: TOLERANCE,
            mode,
          }),
          { handled: false, reason: "other_mode", type, id: "evt_1" },
        );
      }
    }
  }
});

Deno.test("parseEvent() takes events of the wanted mode, and those that do not say", () => {
  const modes = [["live", true], ["test", false], ["any", true], [
    "any",
    false,
  ]] as const;
  for (const [mode, livemode] of modes) {
    const text = JSON.stringify({ ...event(DELETED), livemode });
    assert(
      parseEvent(text, { nowSeconds: NOW, toleranceSeconds: TOLERANCE, mode })
        .handled,
    );
  }
  for (const [mode] of OTHER_MODES) {
    for (const livemode of [undefined, null, "false", 0, {}]) {
      const text = JSON.stringify({ ...event(DELETED), livemode });
      assert(
        parseEvent(text, { nowSeconds: NOW, toleranceSeconds: TOLERANCE, mode })
          .handled,
      );
    }
  }
});

Deno.test("parseEvent() distinguishes thin events from others that are not handled", () => {
  const thin = [
    { type: "v1.customer.subscription.created", object: "v2.core.event" },
    { type: "v1.customer.subscription.deleted" },
    { type: "v2.core.account.updated" },
    { type: "some.future.type", object: "v2.core.event" },
  ];
  for (const { type, object } of thin) {
    assertEquals(parse({ id: "evt_1", type, object }), {
      handled: false,
      reason: "thin",
      type,
      id: "evt_1",
    });
  }
  for (const type of ["ping", "v1", "v10.x", "customer.v1.created"]) {
    const parsed = parse({ id: "evt_1", type, object: "event" });
    assertEquals([type, !parsed.handled && parsed.reason], [
      type,
      "not_handled",
    ]);
  }
});

Deno.test("decodeBody() keeps nothing of a body that ends within a character", () => {
  const broken = Uint8Array.from([0x7b, 0xe2, 0x82]);
  const { code } = assertThrows(() => decodeBody(broken), DeliveryError);
  assertEquals(code, "body_not_text");
  assertEquals(decodeBody(new TextEncoder().encode("{}")), "{}");
});

Deno.test("decodeBody() drops the byte order mark of each body", () => {
  const marked = Uint8Array.from([0xef, 0xbb, 0xbf, 0x7b, 0x7d]);
  assertEquals([decodeBody(marked), decodeBody(marked)], ["{}", "{}"]);
});
