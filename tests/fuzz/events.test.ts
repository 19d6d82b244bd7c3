import { assert, assertEquals } from "@std/assert";
import fc from "fast-check";
import type { JSONValue } from "postgres";
import { eventTypesOf } from "../../scripts/events/provider_events.ts";
import { uniqueId } from "../../scripts/events/templates.ts";
import { buildEvent } from "../../scripts/trigger/arguments.ts";
import { DeliveryError } from "../../supabase/functions/_shared/billing/errors.ts";
import {
  describeEvent,
  type Format,
  kindOf,
  lacksAccountId,
} from "../../supabase/functions/_shared/billing/events/format.ts";
import {
  FORMAT_NAMES,
  FORMATS,
} from "../../supabase/functions/_shared/billing/events/formats.ts";
import {
  parseEvent,
  readEventId,
} from "../../supabase/functions/_shared/billing/events/parse_event.ts";
import { caseCount, checkProperty } from "../support/random.ts";
import { connect } from "../support/tables.ts";

const sql = connect(1);
Deno.test.afterAll(() => sql.end());

type Json = Record<string, unknown>;

const FURTHER_PATHS = `
  data.scheduled_change data.scheduled_change.effective_at
  data.scheduled_change.action data.scheduled_change.resume_at
  data.items.0.trial_dates.ends_at data.origin data.resumes_at data.units
  data.addons.0 data.addons.0.quantity meta.custom_data
  data.attributes.pause data.attributes.pause.mode
  data.attributes.pause.resumes_at meta.custom_data.accountId
  data.object.pause_collection data.object.pause_collection.resumes_at
  data.object.cancel_at data.object.current_period_end
  data.object.items.data.1 data.previous_attributes`.trim().split(/\s+/);
const TEXTS = `
  x -1 0 1e400 999999999999999 9999999999999999 2026-11-03
  0001-01-01T00:00:00Z 2000-01-01T00:00:00Z 2199-12-31T23:59:59.999999Z
  9999-12-31T23:59:59Z 2026-11-03T10:00:00+14:00 2016-12-31T23:59:60Z
  active trialing past_due paused canceled cancelled expired void free cancel
  resume`.trim().split(/\s+/);
const ODD: unknown[] = [
  undefined,
  null,
  true,
  "",
  " \t",
  "a\0b",
  "a\ud800",
  "x".repeat(256),
  [],
  [null],
  [{}],
  {},
  { id: 1 },
];
const NUMBERS = [0, -0, -1, 1.5, 42, 3e6, 1e8, 1e21, 1e300, -1e300]
  .concat(2 ** 31 - 1, 2 ** 31, 2 ** 53 - 1, 2 ** 53, 946_684_799)
  .concat(946_684_800, 7_258_118_400, 7_258_118_401, -62_135_596_800);
const VALUES = [...TEXTS, ...ODD, ...NUMBERS];

function pathsOf(value: unknown, path = ""): string[] {
  if (typeof value !== "object" || value === null) return [path];
  const below = Object.entries(value)
    .flatMap(([name, part]) => pathsOf(part, path ? `${path}.${name}` : name));
  return path ? [path, ...below] : below;
}

function put(event: Json, path: string, value: unknown): void {
  const names = path.split(".");
  const last = names.pop()!;
  let holder = event;
  for (const name of names) {
    const inner = holder[name];
    if (typeof inner !== "object" || inner === null) holder[name] = {};
    holder = holder[name] as Json;
  }
  holder[last] = structuredClone(value);
}

const mutated = fc.constantFrom(...FORMAT_NAMES).chain((format) => {
  const types = eventTypesOf(format)
    .filter((type) => kindOf(FORMATS[format], type));
  return fc.constantFrom(...types).chain((type) => {
    const subscription = "77";
    const event = () => buildEvent({ type, subscription }, { format }) as Json;
    const place = fc.constantFrom(...pathsOf(event()), ...FURTHER_PATHS);
    const change = fc.tuple(place, fc.constantFrom<unknown>(...VALUES));

    return fc.array(change, { minLength: 1, maxLength: 6 }).map((changes) => {
      const copy = event();
      for (const [path, value] of changes) put(copy, path, value);
      return { format, event: copy };
    });
  });
});

async function read(event: unknown, format: Format) {
  const text = JSON.stringify(event);
  describeEvent(event, format);
  lacksAccountId(event, format);
  const id = await readEventId(new TextEncoder().encode(text), {
    format,
    deliveryId: uniqueId("msg"),
    handlerTypes: { types: new Set<string>() },
  });
  try {
    const parsed = parseEvent(text, {
      format,
      id,
      nowSeconds: Date.now() / 1000,
      toleranceSeconds: 300,
      notify: new Set(["payment_failed", "recovered", "ended", "trial_ending"]),
    });
    return parsed.isIgnored ? undefined : parsed.event;
  } catch (error) {
    assert(error instanceof DeliveryError, `${error}`);
    assertEquals(error.code, "event_invalid", error.message);
    return undefined;
  }
}

/** The codes of events whose subscription or account is unknown. */
const NOT_APPLIED = ["BW001", "BW002", "BW005", "BW006"];

Deno.test("a mutated event is refused, or Postgres can hold it", async () => {
  const outcomes = new Set<string>();
  const property = fc.asyncProperty(
    fc.array(mutated, { minLength: 200, maxLength: 200 }),
    async (events) => {
      const wire: object[] = [];
      for (const { format, event } of events) {
        const accepted = await read(event, FORMATS[format]);
        if (accepted === undefined) continue;
        const event_id = uniqueId("evt");
        wire.push({ place: wire.length, provider: "a", ...accepted, event_id });
      }

      const nothing = new Error("nothing of it stays");
      await sql.begin(async (tx) => {
        const rows = await tx`
          select * from public.billing_apply_events(${
          tx.json(wire as unknown as JSONValue)
        })`;
        for (const { place, outcome, error_code, error } of rows) {
          outcomes.add(outcome);
          const isFine = outcome !== "failed" ||
            NOT_APPLIED.includes(error_code);
          assert(isFine, `${error}: ${JSON.stringify(wire[place])}`);
        }
        throw nothing;
      }).catch((error) => assertEquals(error, nothing));
    },
  );
  await checkProperty(property, {
    numRuns: caseCount(15),
    endOnFailure: true,
  });
  assertEquals(outcomes, new Set(["applied", "stale", "failed"]));
});
