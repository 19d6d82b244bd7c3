/** What the doctor makes of answers that the local stack does not give. */
import { assert, assertEquals } from "@std/assert";
import { checkClock } from "../../../scripts/doctor/check_clock.ts";
import { checkEndpoint } from "../../../scripts/doctor/check_endpoint.ts";
import { checkFailures } from "../../../scripts/doctor/check_failures.ts";
import { checkSigned } from "../../../scripts/doctor/check_signed.ts";
import { checkUnsigned } from "../../../scripts/doctor/check_unsigned.ts";
import {
  checkWorkerAccepts,
  checkWorkerRefuses,
} from "../../../scripts/doctor/check_worker.ts";
import { type Finding, findingLine } from "../../../scripts/doctor/finding.ts";
import { probe, type Tools } from "../../../scripts/doctor/probe.ts";
import { LOCAL_SIGNING_SECRETS } from "../../../scripts/common/environment.ts";

const URL = "https://ref.supabase.co/functions/v1/billing-webhook";
const SECRET = "whsec_deployed_0123456789";
const NOON = Date.UTC(2026, 10, 21, 12);

function answering(answer: () => Response): Tools {
  return { fetch: () => Promise.resolve(answer()), now: () => NOON };
}

function answered(status: number, body = "") {
  const headers = new Headers();
  return { status, body, headers, startedAt: NOON, endedAt: NOON + 40 };
}

function todoOf(finding: Finding): string {
  assertEquals(finding.state, "red", finding.text);
  return finding.state === "red" ? finding.todo : "";
}

Deno.test("findingLine() is one line, with what to do where it is red", () => {
  assertEquals(
    findingLine("clock", { state: "red", text: "late", todo: "Set it" }),
    "red      clock           late. Set it",
  );
  assertEquals(
    findingLine("clock", { state: "ok", text: "right" }),
    "ok       clock           right",
  );
});

Deno.test("checkEndpoint() asks for the deployment, or for the local stack", () => {
  const fault = { fault: "Connection refused" };
  assert(todoOf(checkEndpoint(fault, { url: URL })).includes("project ref"));
  const local = "http://localhost:54321/functions/v1/billing-webhook";
  assert(
    todoOf(checkEndpoint(fault, { url: local })).includes("deno task start"),
  );
});

Deno.test("checkEndpoint() does not follow a redirect", () => {
  const finding = checkEndpoint(answered(308), { url: URL });
  assert(todoOf(finding).includes("https"));
});

Deno.test("checkUnsigned() tells a function that does not start from another service", () => {
  assert(todoOf(checkUnsigned(answered(503, "boot"))).includes("log"));
  assert(todoOf(checkUnsigned(answered(200, "OK"))).includes("rewrite"));
});

for (
  const { date, state, why } of [
    { date: "Sat, 21 Nov 2026 12:00:00 GMT", state: "ok", why: "equal" },
    { date: "Sat, 21 Nov 2026 11:59:40 GMT", state: "ok", why: "20 s ahead" },
    { date: "Sat, 21 Nov 2026 12:00:30 GMT", state: "ok", why: "30 s behind" },
    { date: "Sat, 21 Nov 2026 11:59:28 GMT", state: "red", why: "31 s ahead" },
    { date: "Sat, 21 Nov 2026 12:00:31 GMT", state: "red", why: "31 s behind" },
    { date: "", state: "skipped", why: "not told" },
    { date: "noon", state: "skipped", why: "no date" },
  ]
) {
  Deno.test(`checkClock() is ${state} where this machine's time is ${why}`, () => {
    const headers = new Headers({ date });
    const times = { startedAt: NOON, endedAt: NOON };
    assertEquals(checkClock({ headers, ...times }).state, state);
  });
}

for (
  const { status, names } of [
    { status: 401, names: "PROVIDER_B_SIGNING_SECRET" },
    {
      status: 500,
      names: "PROVIDER_B_SIGNING_SECRET with supabase secrets set",
    },
    { status: 503, names: "log" },
  ]
) {
  Deno.test(`checkSigned() says what to do about ${status}`, async () => {
    const finding = await checkSigned({
      url: URL,
      provider: "b",
      env: { PROVIDER_B_SIGNING_SECRET: SECRET },
    }, answering(() => new Response("", { status })));
    assert(todoOf(finding).includes(names));
    assertEquals(todoOf(finding).includes("SECRET="), false);
  });
}

Deno.test("checkSigned() takes no 200 of somebody else for the receiver's", async () => {
  const finding = await checkSigned({
    url: URL,
    provider: "a",
    env: { PROVIDER_A_SIGNING_SECRET: SECRET },
  }, answering(() => new Response("<html>")));
  todoOf(finding);
});

Deno.test("checkSigned() signs for no other machine with the local stack's secret", async () => {
  for (
    const [url, state] of [
      [URL, "skipped"],
      ["http://127.0.0.1:54321/functions/v1/billing-webhook", "ok"],
    ] as const
  ) {
    const finding = await checkSigned({
      url,
      provider: "a",
      env: LOCAL_SIGNING_SECRETS,
    }, answering(() => new Response("OK")));
    assertEquals(finding.state, state, finding.text);
  }
});

Deno.test("checkWorkerRefuses() says so where the worker does not start", async () => {
  const tools = answering(() => new Response("", { status: 503 }));
  assert(todoOf(await checkWorkerRefuses(URL, tools)).includes("log"));
});

Deno.test("checkWorkerAccepts() tells a fault of the worker from a wrong key", async () => {
  const secretKey = "sb_secret_1";
  const refused = answering(() => new Response("", { status: 401 }));
  const failing = answering(() => new Response("", { status: 500 }));
  const wrongKey = await checkWorkerAccepts(URL, { secretKey, tools: refused });
  const fault = await checkWorkerAccepts(URL, { secretKey, tools: failing });
  assert(todoOf(wrongKey).includes("sb_secret_"));
  assert(todoOf(fault).includes("supabase db push --remote"));
});

Deno.test("checkFailures() says what to do where the view is not there", async () => {
  const tools = answering(() => new Response("{}", { status: 404 }));
  const finding = await checkFailures("https://ref.supabase.co", {
    secretKey: "sb_secret_1",
    tools,
  });
  assert(todoOf(finding).includes("supabase db push --remote"));
});

Deno.test("probe() gives the reason where there is no answer", async () => {
  const refused = new TypeError("fetch failed", {
    cause: new Error("Connection refused"),
  });
  const tools = { fetch: () => Promise.reject(refused), now: () => NOON };
  assertEquals(await probe(URL, { init: {}, tools }), {
    fault: "Connection refused",
  });
});
