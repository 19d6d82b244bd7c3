/**
 * Rows 28 to 48 and 74: a valid signature over a body that is broken, hostile, unusual or
 * not for this endpoint.
 */
import { assertEquals } from "@std/assert";
import { Buffer } from "node:buffer";
import { uniqueId } from "../../scripts/events/templates.ts";
import { edited } from "../support/edited.ts";
import {
  APPLIED,
  filed,
  IGNORED,
  INVALID,
  type Rows,
  type Sent,
} from "./deliver.ts";
import {
  creation,
  deletion,
  failedInvoice,
  NEWEST,
  PAYLOAD_MARK,
  unixNow,
  update,
  withText,
} from "./stage.ts";

const NOT_JSON = {
  ...filed(400, "body_not_json"),
  kept: "text",
} as const;

const PERIOD_END = "data.object.current_period_end";
const ITEM = "data.object.items.data.0";
const PLAN = `${ITEM}.price.id`;
const ITEMS = "data.object.items";
const INVOICED = "data.object.subscription";
const ACCOUNT = "data.object.metadata.accountId";
const UNKNOWN = { code: "account_unknown" };
const MARK = `"${PAYLOAD_MARK}"`;

const YEAR_2000 = 946_684_800;
const YEAR_2200 = 7_258_118_400;
/** The default of SIGNATURE_TOLERANCE_SECONDS. */
const TOLERANCE_SECONDS = 300;

const moved = () => creation(NEWEST);
const ALL = [creation, moved, update, deletion, failedInvoice];

type Make = () => { id: string; data: unknown };

/**
 * Returns an event of each kind with each of the values at the path. They are filed, with
 * this path in the error, or with another one that `says` names.
 */
function bad(
  makers: readonly Make[],
  path: string,
  values: readonly unknown[],
  says = path.replaceAll(/\.(\d+)/g, "[$1]"),
): Sent[] {
  return makers.flatMap((make) =>
    values.map((value) => ({
      body: edited(make(), { [path]: value }),
      isHashed: path === "id",
      says,
    }))
  );
}

/** Delivers an event whose text is kept, because Postgres' JSON cannot hold a value. */
const asText = (event: { id: string }, body = JSON.stringify(event)): Sent => ({
  event,
  body,
  kept: "text",
});

const withNumber = (event: { id: string }, number: string): Sent => ({
  event,
  body: withText(event, `":${YEAR_2000}`, `":${number}`),
});

const invalidText = (...bytes: number[]): Sent => {
  const body = new TextEncoder().encode(JSON.stringify(creation()));
  body.set(bytes, body.length - 20);
  return { body, kept: "base64" };
};

function withByteOrderMark(): Sent {
  const event = creation();
  return { event, body: `\ufeff${JSON.stringify(event)}` };
}

const withZeroAt = (path: string): Sent =>
  asText(edited(creation(), { [path]: "with_\0_in_it" }));

function withLoneSurrogate(lone: string): Sent {
  const event = deletion({ subscription: "sub_lone" });
  return asText(event, withText(event, "sub_lone", lone));
}

const endingAt = (periodEnd: number): Sent => ({
  body: creation({ periodEnd }),
  record: { current_period_end: new Date(periodEnd * 1_000) },
  ...APPLIED,
});

function harmless(from: string, to: string): Sent {
  const event = creation({ account: "acc_1" });
  return { event, body: withText(event, from, to), ...APPLIED };
}

const NO_ID = [undefined, null, 12, "", " \t"];
const NO_TIME = [undefined, null, "1793700000", {}];

const NO_INTEGER = [2 ** 53 + 2, 1e21, 1_793_700_000.5, 1e9 + 1e-6];
const NOT_OUR_TIME = [YEAR_2000 - 1, YEAR_2200 + 1, 0, -1, Date.now()];
const NOW = unixNow();
const LONG = "i".repeat(256);
const FORGED = '{"level":"error","message":"forged"}';
const CONTROLS = ["\x1b[2J", "\u2028", `\n${FORGED}`]
  .map((text) => `in_${text}_it`);

const DEEP_LIST = "[".repeat(100_000) + "]".repeat(100_000);
const DEEP_OBJECT = '{"a":'.repeat(100_000) + "1" + "}".repeat(100_000);

const NAMING = ["id", "data.object.id", ACCOUNT, PLAN];

/** White space makes the same few values new bodies in every run. */
const otherValues = ["12", "null", "true", "[]", "{}", '""']
  .map((text) => text + " ".repeat(Date.now() % 100_000));

const withoutAccount = [
  ...bad([creation], ACCOUNT, [undefined, null, "", " \t"]),
  ...bad([creation], "data.object.metadata", [undefined, null]),
].map((sent) => ({ ...sent, ...UNKNOWN }));

const ofNumberedAccounts = [0, 12, 2 ** 53 - 1].map((number): Sent => ({
  body: edited(creation(), { [ACCOUNT]: number }),
  record: { account_id: `${number}` },
  ...APPLIED,
}));

export const BODIES: Rows = {
  "28: the same plain-HMAC delivery again": {
    ...APPLIED,
    sent: Array(3).fill({
      to: "hex",
      body: creation(),
      record: { provider: "b", status: "active" },
    }),
  },
  "29: an empty body": {
    ...NOT_JSON,
    code: "body_empty",
    sent: [{ body: "" }],
  },
  "30: malformed JSON": {
    ...NOT_JSON,
    sent: malformed(JSON.stringify(creation())).map((body) => ({ body })),
  },
  "31: invalid UTF-8": {
    ...filed(400, "body_not_text"),
    sent: [
      invalidText(0xff),
      invalidText(0xc0, 0x80),
      invalidText(0xed, 0xa0, 0x80),
      invalidText(0xe2, 0x82),
      // It is text, and Postgres cannot hold its zero bytes.
      {
        body: new Uint8Array(Buffer.from(uniqueId("evt"), "utf16le")),
        ...NOT_JSON,
        kept: "base64",
      },
    ],
  },
  "32: a byte order mark first": {
    ...APPLIED,
    sent: [
      withByteOrderMark(),
      { body: `\ufeff\ufeff${JSON.stringify(creation())}`, ...NOT_JSON },
    ],
  },
  "33: top level an array, string, number, null": {
    ...INVALID,
    sent: [
      JSON.stringify([creation()]),
      JSON.stringify(uniqueId("evt")),
      ...otherValues,
    ].map((body) => ({ body })),
  },
  "34: duplicate keys": {
    ...APPLIED,
    sent: [
      ['"accountId":"acc_1"', '"accountId":"acc_0","accountId":"acc_1"'],
      ['"type":"customer', '"type":12,"type":"customer'],
    ].map(([from = "", to = ""]) => ({
      ...harmless(from, to),
      record: { account_id: "acc_1" },
    })),
  },
  "35: __proto__, constructor as keys": {
    ...APPLIED,
    sent: [polluted(), inheriting(), {}],
  },
  "36: nesting of 100,000 levels, in an unused field and in a used one": {
    ...INVALID,
    sent: [
      ...nested(DEEP_LIST),
      ...nested(DEEP_OBJECT),
      ...inPreviousAttributes(DEEP_LIST),
    ],
  },
  "37: \\u0000 in a used field / in an unused one": {
    ...INVALID,
    sent: [
      harmless(MARK, `"${PAYLOAD_MARK}\\u0000"`),
      withZeroAt("data.object.id"),
      withZeroAt(ACCOUNT),
      withZeroAt(PLAN),
      {
        ...asText(edited(creation(), { id: `${uniqueId("evt")}\0` })),
        isHashed: true,
      },
    ],
  },
  "38: a lone surrogate in a used field / in an unused one": {
    ...INVALID,
    sent: [
      harmless(PAYLOAD_MARK, "\\udc00"),
      harmless(PAYLOAD_MARK, "x\\ud83d"),
      withLoneSurrogate("\\udc00"),
      withLoneSurrogate("x\\ud83d"),
      {
        body: creation({ account: "acc_\u{1f600}" }),
        record: { account_id: "acc_\u{1f600}" },
        ...APPLIED,
      },
    ],
  },
  "39: 1e400, 1e100000 as a period end": {
    ...INVALID,
    kept: "text",
    says: PERIOD_END,
    sent: ["1e400", "1e100000", "1e-400"].map((number) =>
      withNumber(creation({ periodEnd: YEAR_2000 }), number)
    ),
  },
  "40: a used integer over 2^53, or a fraction": {
    ...INVALID,
    sent: [
      ...bad([creation], PERIOD_END, NO_INTEGER),
      ...bad([deletion], "created", NO_INTEGER),
      // JavaScript has no such number; it is kept as it is.
      withNumber(creation({ created: YEAR_2000 }), "9007199254740993"),
    ],
  },
  "41: each required field missing, null, of another type, empty, blank": {
    ...INVALID,
    sent: [
      ...bad(ALL, "id", NO_ID),
      ...bad(ALL, "type", NO_ID),
      ...bad(ALL, "data.object", [null, 1]),
      ...bad([creation, update, deletion], "data.object.id", NO_ID),
      ...bad([creation], PLAN, NO_ID),
      ...bad([creation], ITEM, [null, "item"], ITEMS),
      ...bad([creation], `${ITEMS}.data`, [undefined, null, []], ITEMS),
      ...bad([creation], ACCOUNT, [2 ** 53, -1, 1.5, true, {}]),
      ...bad([creation], "data.object.metadata", ["", []]),
      ...withoutAccount,
      ...ofNumberedAccounts,
      ...bad([update], "data.object.status", NO_ID),
      ...bad([creation], PERIOD_END, NO_TIME),
      ...bad(
        [moved],
        `${ITEM}.current_period_end`,
        NO_TIME,
        "current_period_end",
      ),
      // An invoice without a subscription is a one-off, and no failure.
      ...bad([failedInvoice], INVOICED, [12, true, ["a"], {}, "", " \t"]),
      ...bad(
        [() => failedInvoice(NEWEST)],
        "data.object.parent.subscription_details.subscription",
        ["", " ", 12, {}],
      ),
    ],
  },
  "42: an unknown event type, with any data at all": {
    ...IGNORED,
    sent: [
      { type: "charge.unheard_of", id: uniqueId("evt"), data: PAYLOAD_MARK },
      { type: `\n{"level":"error"}\0\ud800`, data: PAYLOAD_MARK },
      { type: "x", id: null, data: null, created: "never" },
      { type: "x", id: "evt_\n{}", data: { object: [] } },
    ].map((body) => ({ body })),
  },
  "43: unknown extra fields, and nonsense in fields that nobody reads": {
    ...APPLIED,
    sent: withMore(uniqueId("sub")),
  },
  "44: an id over 255 characters": {
    ...INVALID,
    sent: [
      ...NAMING.flatMap((path) => bad([creation], path, [LONG])),
      ...bad([update], "data.object.status", [LONG]),
      ...bad([failedInvoice], INVOICED, [LONG, { id: LONG }]),
      {
        body: creation({
          id: uniqueId("evt").padEnd(255, "i"),
          subscription: uniqueId("sub").padEnd(255, "i"),
          account: "a".repeat(255),
          plan: "p".repeat(255),
        }),
        ...APPLIED,
      },
    ],
  },
  "45: control characters or line breaks in an id": {
    ...INVALID,
    sent: [
      ...NAMING.flatMap((path) => bad([creation], path, CONTROLS)),
      ...bad([failedInvoice], INVOICED, CONTROLS),
    ],
  },
  "46: a period end before 2000 or after 2200": {
    ...INVALID,
    sent: [
      ...bad([creation], PERIOD_END, NOT_OUR_TIME),
      endingAt(YEAR_2000),
      endingAt(YEAR_2200),
    ],
  },
  "47: created before 2000, further ahead than the tolerance, or no integer": {
    ...INVALID,
    sent: [
      ...bad([creation], "created", [...NOT_OUR_TIME, "1793700000", null]),
      ...bad(ALL, "created", [NOW + 3_600]),
      { body: creation({ created: YEAR_2000 }), ...APPLIED },
      {
        body: creation({ created: NOW + TOLERANCE_SECONDS - 10 }),
        ...APPLIED,
      },
    ],
  },
  "48: SQL, HTML, template syntax in strings": {
    ...APPLIED,
    sent: [
      "'; drop table billing.subscriptions; --",
      '<script>alert(1)</script>&amp;"',
      "$1 $$ \\ \\' %s ${process.env.HOME} {{7*7}} \u202e \u00e9 \u{1f600}",
    ].flatMap((text): Sent[] => {
      const subscription = `${uniqueId("sub")} ${text}`;
      const id = `${uniqueId("evt")} ${text}`;
      const values = { subscription, plan: text };
      const record = { id: subscription, account_id: text, plan_id: text };
      return [
        { body: creation({ id, account: text, ...values }), record },
        {
          body: update({ status: text, ...values }),
          record: { ...record, status: text },
        },
        { body: failedInvoice({ subscription }), notifies: text },
      ];
    }),
  },
  "74: an event of the other mode, where PROVIDER_A_MODE says which": {
    to: "ofLive",
    sent: [
      { body: edited(creation(), { livemode: true }), ...APPLIED },
      { body: edited(creation(), { livemode: undefined }), ...APPLIED },
      { body: edited(creation(), { livemode: false }), ...IGNORED },
      {
        body: edited(creation(), { livemode: false, "data.object": null }),
        ...IGNORED,
      },
    ],
    check: async ({ ofLive }) => {
      const { level } = await ofLive.receiver.logged(({ message }) =>
        message === "event of the other mode ignored"
      );
      assertEquals(level, "info");
    },
  },
};

function malformed(whole: string): string[] {
  const id = uniqueId("evt");
  return [
    whole.slice(0, -1),
    `${whole}}`,
    `{'id': '${id}'}`,
    `{"id": "${id}", // ${PAYLOAD_MARK}\n}`,
    `id=${id}&type=customer.subscription.created`,
  ];
}

function polluted(): Sent {
  const keys = `"__proto__":{"id":"polluted","type":"polluted"},` +
    `"constructor":{"prototype":{"polluted":true}},"toString":1,`;
  const event = creation();
  const { id } = event.data.object;
  const body = JSON.stringify(event).replaceAll("{", `{${keys}`)
    .replaceAll(`,}`, "}");
  return { event, body, record: { id, status: "active" } };
}

/** The subscription's ID is only inherited, so it is missing. */
function inheriting(): Sent {
  const id = uniqueId("evt");
  const rest = `"type":"customer.subscription.deleted",` +
    `"data":{"object":{"__proto__":{"id":"sub_1"}}}`;
  return { event: { id }, body: `{"id":"${id}",${rest}}`, ...INVALID };
}

function nested(deep: string): Sent[] {
  const unowned = edited(creation(), { "data.object.metadata": {} });
  const unnamed = creation({ subscription: "sub_deep" });
  return [
    harmless(MARK, deep),
    { ...asText(unowned, withText(unowned, MARK, deep)), ...UNKNOWN },
    asText(unnamed, withText(unnamed, '"sub_deep"', deep)),
  ];
}

function inPreviousAttributes(deep: string): Sent[] {
  // Both have one time, or the update may be older than the creation.
  const same = { subscription: uniqueId("sub"), created: unixNow() };
  const event = edited(update(same), {
    "data.previous_attributes": { items: "deep" },
  });
  return [
    { body: creation(same), ...APPLIED },
    { event, body: withText(event, '"deep"', deep), ...APPLIED },
  ];
}

function withMore(subscription: string): Sent[] {
  return [
    edited(creation({ subscription }), {
      "data.object.metadata.more": 1,
      [`${ITEM}.price.more`]: null,
      "data.object.items.data.1": { price: 12 },
    }),
    edited(update({ subscription }), {
      "data.object.metadata": "nonsense",
      "data.previous_attributes": { status: {}, items: "nonsense" },
      livemode: "nonsense",
    }),
  ].map((event) => ({
    body: edited(event, { "data.object.more": { a: [1] }, more: [1, {}] }),
  }));
}
