import { assertEquals } from "@std/assert";
import fc from "fast-check";
import {
  logJson,
  type LogLevel,
} from "../../../supabase/functions/_shared/billing/log.ts";

/** Text of any code points at all, lone surrogates included. */
const anyText = fc.string({
  unit: fc.integer({ min: 0, max: 0x10ffff })
    .map((codePoint) => String.fromCodePoint(codePoint)),
});

const LEVELS: readonly LogLevel[] = ["info", "warn", "error"];

/** What is written to the console while `write` runs. */
function linesOf(write: () => void): { level: LogLevel; args: unknown[] }[] {
  const lines: { level: LogLevel; args: unknown[] }[] = [];
  const original = { ...console };
  for (const level of LEVELS) {
    console[level] = (...args: unknown[]) => lines.push({ level, args });
  }
  try {
    write();
  } finally {
    for (const level of LEVELS) console[level] = original[level];
  }
  return lines;
}

Deno.test("logJson() writes one JSON object, at the given level", () => {
  for (const level of LEVELS) {
    const lines = linesOf(() =>
      logJson(level, "events applied", {
        outcomes: { applied: 1 },
        event_id: "evt_1",
        absent: undefined,
      })
    );
    assertEquals(lines.map((line) => line.level), [level]);
    assertEquals(lines[0]?.args.length, 1);
    assertEquals(JSON.parse(String(lines[0]?.args[0])), {
      level,
      message: "events applied",
      outcomes: { applied: 1 },
      event_id: "evt_1",
    });
  }
});

Deno.test("logJson() needs no fields", () => {
  const lines = linesOf(() => logJson("info", "started"));
  assertEquals(lines[0]?.args, ['{"level":"info","message":"started"}']);
});

Deno.test("logJson() lets no value forge a line", () => {
  const hostile = fc.oneof(
    anyText,
    fc.constantFrom(
      "\n",
      "\r\n",
      '"}\n{"level":"error","message":"forged"}',
      "%s %o %c",
      "\u001b[2J",
      "\0",
    ),
  );
  fc.assert(fc.property(hostile, hostile, (event_id, error) => {
    const lines = linesOf(() => logJson("warn", "failed", { event_id, error }));
    assertEquals(lines.length, 1);
    assertEquals(lines[0]?.args.length, 1);
    const line = String(lines[0]?.args[0]);
    const controls = [...line].filter((character) => character < " ");
    assertEquals(controls, []);
    assertEquals(JSON.parse(line), {
      level: "warn",
      message: "failed",
      event_id,
      error,
    });
  }));
});
