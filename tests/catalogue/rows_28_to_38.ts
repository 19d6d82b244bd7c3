/** Rows 28 to 38: a valid signature over unusual or broken bodies. */
import { assert, assertEquals } from "@std/assert";
import { Buffer } from "node:buffer";
import { edited } from "../support/edited.ts";
import { uniqueId } from "../../scripts/events/unique_id.ts";
import { subscriptionRecord } from "../support/tables.ts";
import {
  applied,
  assertKeptAsText,
  filed,
  filedWith,
  signed,
} from "./body_checks.ts";
import { creation, deletion, hashId, update } from "./events.ts";
import { expectApplied } from "./outcome.ts";
import { PAYLOAD_MARK } from "./secrets.ts";
import { endpoints, type Row } from "./stage.ts";

const NOT_JSON = { status: 400, code: "body_not_json" };
const NOT_TEXT = { status: 400, code: "body_not_text" };
const DEEP = 100_000;

/** An event's JSON with other text in the place of a value. */
function withText(event: object, from: string, to: string): string {
  const text = JSON.stringify(event);
  assert(text.includes(from));
  return text.replace(from, () => to);
}

export const ROWS_28_TO_38: readonly Row[] = [
  {
    row: 28,
    input: "the same plain-HMAC delivery again",
    check: async (stage) => {
      const { hex } = stage;
      const event = creation();
      for (let i = 0; i < 3; i++) {
        const send = signed(hex, event);
        await expectApplied(stage, { receiver: hex.receiver, send, event });
      }
      const record = await subscriptionRecord(stage.sql, event.data.object.id);
      assertEquals([record?.provider, record?.status], ["b", "active"]);
    },
  },
  {
    row: 29,
    input: "an empty body",
    check: async (stage) => {
      // The hash of nothing is the same in every scheme and every run.
      await stage.sql`
        delete from billing.failed_events where event_id = ${hashId("")}`;
      const row = await filed(stage, "", { status: 400, code: "body_empty" });
      assertEquals([row.type, row.attempts], [null, 1]);
      assertKeptAsText(row, "");
      for (const endpoint of endpoints(stage)) {
        assertEquals((await signed(endpoint, "")()).status, 400);
      }
    },
  },
  {
    row: 30,
    input: "malformed JSON",
    check: async (stage) => {
      const id = uniqueId("evt");
      const whole = JSON.stringify(creation({ id }));
      for (
        const text of [
          whole.slice(0, -1),
          whole.slice(0, 100),
          `${whole}}`,
          whole.replace(":", ""),
          `{'id': '${id}'}`,
          `{"id": "${id}", "type": undefined, "note": "${PAYLOAD_MARK}"}`,
          `{"id": "${id}", // ${PAYLOAD_MARK}\n}`,
          `{"id": NaN, "note": "${id}"}`,
          ` ${id}`,
          `id=${id}&type=customer.subscription.created`,
        ]
      ) assertKeptAsText(await filed(stage, text, NOT_JSON), text);
    },
  },
  {
    row: 31,
    input: "invalid UTF-8",
    check: async (stage) => {
      const text = new TextEncoder().encode(JSON.stringify(creation()));
      const invalid = [[0xff], [0xc0, 0x80], [0xed, 0xa0, 0x80], [0xe2, 0x82]];
      for (const bytes of invalid) {
        const body = text.slice();
        body.set(bytes, body.length - 20);
        const row = await filed(stage, body, NOT_TEXT);
        assertEquals(row.payload_encoding, "base64");
        assertEquals(
          [...Buffer.from(String(row.payload), "base64")],
          [...body],
        );
      }
      const utf16 = new Uint8Array(Buffer.from(uniqueId("evt"), "utf16le"));
      const row = await filed(stage, utf16, NOT_JSON);
      assertEquals(row.payload_encoding, "base64", "It holds zero bytes");
      assertEquals(
        [...Buffer.from(String(row.payload), "base64")],
        [...utf16],
      );
    },
  },
  {
    row: 32,
    input: "a byte order mark first",
    check: async (stage) => {
      for (const endpoint of endpoints(stage)) {
        const event = creation();
        const send = signed(endpoint, `\ufeff${JSON.stringify(event)}`);
        await expectApplied(stage, {
          receiver: endpoint.receiver,
          send,
          event,
        });
      }
      const twice = `\ufeff\ufeff${JSON.stringify(creation())}`;
      await filed(stage, twice, NOT_JSON);
    },
  },
  {
    row: 33,
    input: "top level an array, string, number, null",
    check: async (stage) => {
      const mark = uniqueId("evt");
      for (
        const body of [
          [creation()],
          [mark],
          JSON.stringify(mark),
          JSON.stringify(JSON.stringify(creation())),
          // White space makes the same few values new bodies in every run.
          ...["12", "null", "true", "[]", "{}", "1e400", '""']
            .map((text) => text + " ".repeat(Date.now() % 100_000)),
        ]
      ) {
        const row = await filed(stage, body);
        assertEquals(row.type, null);
      }
    },
  },
  {
    row: 34,
    input: "duplicate keys",
    check: async (stage) => {
      const event = creation({ account: "acc_first" });
      const body = withText(
        event,
        '"accountId":"acc_first"',
        '"accountId":"acc_first","accountId":"acc_last"',
      );
      await applied(stage, event, { body });
      const record = await subscriptionRecord(stage.sql, event.data.object.id);
      assertEquals(record?.account_id, "acc_last");

      const other = creation();
      const ids = withText(
        other,
        `"id":"${other.id}"`,
        `"id":1,"id":"${other.id}"`,
      );
      await applied(stage, other, { body: ids });
    },
  },
  {
    row: 35,
    input: "__proto__, constructor as keys",
    check: async (stage) => {
      const keys = `"__proto__":{"id":"polluted","type":"polluted"},` +
        `"constructor":{"prototype":{"polluted":true}},"toString":1,`;
      const event = creation();
      const body = JSON.stringify(event).replaceAll("{", `{${keys}`)
        .replaceAll(`,}`, "}");
      await applied(stage, event, { body });
      const record = await subscriptionRecord(stage.sql, event.data.object.id);
      assertEquals(record?.id, event.data.object.id);
      assertEquals(record?.status, "active");

      // What is only inherited is not there.
      const deleted = `"type":"customer.subscription.deleted"`;
      for (
        const rest of [
          `"__proto__":{${deleted}}`,
          `${deleted},"data":{"object":{"__proto__":{"id":"sub_1"}}}`,
          `${deleted},"__proto__":{"data":{"object":{"id":"sub_1"}}}`,
        ]
      ) {
        const id = uniqueId("evt");
        await filed(stage, `{"id":"${id}",${rest}}`, { as: id });
      }
      // The receiver is as it was.
      await applied(stage, creation());
    },
  },
  {
    row: 36,
    input: "nesting of 100,000 levels in an unused field",
    check: async (stage) => {
      const nested = "[".repeat(DEEP) + "]".repeat(DEEP);
      const objects = '{"a":'.repeat(DEEP) + "1" + "}".repeat(DEEP);
      for (const deep of [nested, objects]) {
        const event = creation();
        await applied(stage, event, {
          body: withText(event, `"${PAYLOAD_MARK}"`, deep),
        });
        const bad = edited(creation(), { "data.object.metadata": {} });
        const body = withText(bad, `"${PAYLOAD_MARK}"`, deep);
        assertKeptAsText(await filed(stage, body, { as: bad.id }), body);
        // In fields that are used.
        const used = creation();
        const inId = withText(used, `"${used.data.object.id}"`, deep);
        assertKeptAsText(await filed(stage, inId, { as: used.id }), inId);
      }
      const event = update({ subscription: uniqueId("sub") });
      await applied(
        stage,
        creation({ subscription: event.data.object.id }),
      );
      const text = JSON.stringify(
        edited(event, { "data.previous_attributes": PAYLOAD_MARK }),
      ).replace(
        `"previous_attributes":"${PAYLOAD_MARK}"`,
        () => `"previous_attributes":{"items":${nested}}`,
      );
      await applied(stage, event, { body: text });
    },
  },
  {
    row: 37,
    input: "\\u0000 in a used field / in an unused one",
    check: async (stage) => {
      const event = creation();
      const unused = edited(event, { "data.object.note": `${PAYLOAD_MARK}\0` });
      await applied(stage, event, { body: unused });

      for (
        const path of [
          "data.object.id",
          "data.object.metadata.accountId",
          "data.object.items.data.0.price.id",
        ]
      ) {
        const bad = edited(creation(), { [path]: "with_\0_in_it" });
        const text = JSON.stringify(bad);
        assertKeptAsText(await filed(stage, text, { as: bad.id }), text);
      }
      const inId = edited(creation(), { id: `${uniqueId("evt")}\0` });
      const text = JSON.stringify(inId);
      assertKeptAsText(await filed(stage, text), text);
    },
  },
  {
    row: 38,
    input: "a lone surrogate in a used field / in an unused one",
    check: async (stage) => {
      for (const lone of ["\\ud800", "\\udc00", "\\udc00\\ud800", "x\\ud83d"]) {
        const event = creation();
        const unused = withText(event, PAYLOAD_MARK, lone);
        await applied(stage, event, { body: unused });

        const bad = deletion({ subscription: "sub_surrogate" });
        const text = withText(bad, '"sub_surrogate"', `"${lone}"`);
        assertKeptAsText(await filed(stage, text, { as: bad.id }), text);
      }
      await filedWith(stage, creation, {
        path: "data.object.metadata.accountId",
        values: [""],
      });
      const whole = creation({ account: "acc_\u{1f600}" });
      await applied(stage, whole);
      const record = await subscriptionRecord(stage.sql, whole.data.object.id);
      assertEquals(record?.account_id, "acc_\u{1f600}");
    },
  },
];
