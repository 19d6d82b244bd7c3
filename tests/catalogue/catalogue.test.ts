/**
 * Hostile and broken input over real HTTP, each test named by the number of its row. No
 * other test states the statuses.
 */
import { assert, assertEquals } from "@std/assert";
import { limited } from "../support/hang_limit.ts";
import { BODIES } from "./bodies.ts";
import { assertDiscreet, checkRow, type Rows } from "./deliver.ts";
import { ORDER } from "./order.ts";
import { OUTAGES } from "./outages.ts";
import { REQUESTS } from "./requests.ts";
import { SIGNATURES } from "./signatures.ts";
import { WORKERS } from "./workers.ts";
import { openStage } from "./stage.ts";

const ROWS = 74;
const ROW_LIMIT_MS = 300_000;

const stage = await openStage();
Deno.test.afterAll(() => limited(stage.disposeAsync(), "the end of the stage"));

const rows: Rows = {
  ...SIGNATURES,
  ...REQUESTS,
  ...BODIES,
  ...ORDER,
  ...OUTAGES,
  ...WORKERS,
};
/** Rows that take ten seconds go on beside the others, and are checked after them. */
const begun = new Map<string, () => Promise<void>>();
for (const [title, { begin }] of Object.entries(rows)) {
  if (begin) begun.set(title, await begin(stage));
}
const titles = Object.keys(rows);
const inOrder = [
  ...titles.filter((title) => !begun.has(title)),
  ...begun.keys(),
];

for (const title of inOrder) {
  Deno.test(`catalogue ${title}`, () => {
    const check = begun.get(title)?.() ?? checkRow(stage, rows[title]!);
    return limited(check, "the row's end", { withinMs: ROW_LIMIT_MS });
  });
}

Deno.test("every row of the catalogue has a test", () => {
  assertEquals(
    titles.map((title) => parseInt(title)).sort((a, b) => a - b),
    Array.from({ length: ROWS }, (_, i) => i + 1),
  );
});

Deno.test("no log holds a secret, a signature, a payload or a trace", () => {
  const { stripe, standard, behindFaults } = stage;
  for (const { receiver } of [stripe, standard, behindFaults]) {
    const output = receiver.output();
    assert(output.split("delivery failed").length > 10, "It has no log");
    assertDiscreet(output);
  }
});
