import { assertEquals, assertThrows } from "@std/assert";
import { parseDoctorArguments } from "../../scripts/doctor/arguments.ts";
import { UsageError } from "../../scripts/trigger/checked.ts";
import { DEFAULT_URL } from "../../scripts/trigger/usage.ts";

Deno.test("parseDoctorArguments() looks at the local stack by default", () => {
  assertEquals(parseDoctorArguments([]), {
    url: DEFAULT_URL,
    projectUrl: "http://127.0.0.1:54321",
    secretKey: undefined,
    dbUrl: undefined,
    provider: "a",
  });
});

Deno.test("parseDoctorArguments() takes the project from the endpoint", () => {
  const url =
    "https://ref.supabase.co/functions/v1/billing-webhook?forceFunctionRegion=eu-central-1";
  const parsed = parseDoctorArguments(["--url", url]);
  assertEquals(parsed?.url, url);
  assertEquals(parsed?.projectUrl, "https://ref.supabase.co");
});

Deno.test("parseDoctorArguments() does not guess the project of an address of one's own", () => {
  const url = "https://example.com/api/billing/webhook";
  assertEquals(parseDoctorArguments(["--url", url])?.projectUrl, undefined);
  assertEquals(
    parseDoctorArguments([
      "--url",
      url,
      "--project-url",
      "https://ref.supabase.co/",
    ])?.projectUrl,
    "https://ref.supabase.co",
  );
});

Deno.test("parseDoctorArguments() gives nothing where help is asked for", () => {
  assertEquals(parseDoctorArguments(["--help"]), null);
});

for (
  const args of [
    ["--url", "ref.supabase.co"],
    ["--project-url", "ref"],
    ["--db-url", "https://u:hunter2@example.com"],
    ["--provider", "z"],
    ["--what"],
  ]
) {
  Deno.test(`parseDoctorArguments() refuses ${args[0]} ${args[1] ?? ""}`, () => {
    const error = assertThrows(() => parseDoctorArguments(args), UsageError);
    assertEquals(error.message.includes("hunter2"), false);
  });
}
