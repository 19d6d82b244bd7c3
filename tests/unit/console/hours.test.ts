import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { createHourCounter } from "../../../scripts/console/hour_counts.ts";
import { openProject } from "../../../scripts/console/project.ts";
import { type ApiCall, openConsole } from "./console_app.ts";

const NOW_MS = Date.parse("2026-11-22T10:20:00Z");
const HEALTH = { open_failures: 0, last_event_at: null };
const ROWS = [
  { hour: "2026-11-22T10:00:00+00:00", outcome: "applied", events: 7 },
  { hour: "2026-11-22T10:00:00+00:00", outcome: "applied", events: 3 },
  { hour: "2026-11-19T11:00:00+00:00", outcome: "failed", events: 2 },
  { hour: "2026-11-19T10:00:00+00:00", outcome: "stale", events: 9 },
];

/** What the API answers: a health, and no rows. */
function answer({ path }: ApiCall): Response {
  return Response.json(path.includes("billing_health") ? HEALTH : []);
}

/** A counter in front of a database that answers as told. */
function openCounter(answer: () => Response) {
  const now = { ms: NOW_MS };
  let calls = 0;
  const project = openProject(
    { projectUrl: "http://127.0.0.1:54321", secretKey: "x" },
    { fetch: () => (calls++, Promise.resolve(answer())) },
  );
  const counter = createHourCounter(project, () => now.ms);
  return { counter, now, calls: () => calls };
}

Deno.test("the last 72 hours are counted, each with its outcomes", async () => {
  const { counter } = openCounter(() => Response.json(ROWS));
  const hours = await counter.count();
  assertEquals(hours.length, 72);
  assertEquals(hours[0], {
    hour: "2026-11-19T11:00:00.000Z",
    applied: 0,
    stale: 0,
    failed: 2,
  });
  assertEquals(hours.at(-1), {
    hour: "2026-11-22T10:00:00.000Z",
    applied: 10,
    stale: 0,
    failed: 0,
  });
});

Deno.test("events are counted once per minute, and again after an action", async () => {
  const { counter, now, calls } = openCounter(() => Response.json(ROWS));
  const [first, second] = await Promise.all([counter.count(), counter.count()]);
  assert(first === second);
  now.ms += 59_000;
  await counter.count();
  assertEquals(calls(), 1);
  now.ms += 1_000;
  await counter.count();
  assertEquals(calls(), 2);
  counter.forget();
  await counter.count();
  assertEquals(calls(), 3);
});

Deno.test("a count that failed is not kept", async () => {
  let isAway = true;
  const { counter } = openCounter(() =>
    isAway ? new Response("", { status: 503 }) : Response.json(ROWS)
  );
  const fault = await counter.count().then(() => "", (error) => error.name);
  assertEquals(fault, "ProjectError");
  isAway = false;
  assertEquals((await counter.count()).length, 72);
});

Deno.test("the overview does not wait for the count of events", async () => {
  const { request, calls } = openConsole(answer);
  const text = await (await request("/")).text();
  assertStringIncludes(text, 'src="/hours.svg"');
  assertEquals(calls.filter(({ path }) => path.includes("per_hour")), []);
});

Deno.test("the chart and its table share a count, and an action ends it", async () => {
  const { request, send, calls } = openConsole(answer);
  const counts = () =>
    calls.filter(({ path }) => path.includes("per_hour")).length;
  for (const path of ["/hours.svg", "/hours.svg?scheme=dark", "/hours"]) {
    assertEquals((await request(path)).status, 200);
  }
  assertEquals(counts(), 1);
  await send("/notifications/send", {});
  await request("/hours");
  assertEquals(counts(), 2);
});

Deno.test("a chart that cannot be drawn leaves the result of an action for the next page", async () => {
  const { request, session } = openConsole(() => {
    throw new TypeError("connection refused");
  });
  const notice = { kind: "good", text: "Saved.", path: "/" } as const;
  session.notice = notice;
  const response = await request("/hours.svg");
  assertEquals(response.status, 502);
  assertStringIncludes(await response.text(), "Cannot reach");
  assertEquals(session.notice, notice);
});
