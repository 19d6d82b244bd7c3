import { assertEquals, assertThrows } from "@std/assert";
import { UsageError } from "../../../scripts/common/cli.ts";
import { parseDoctorArguments } from "../../../scripts/doctor.ts";

const REF = "https://ref.supabase.co";
const HERE = "http://127.0.0.1:54321";
const PATH = "/functions/v1/billing-webhook";
const AT = `${REF}${PATH}?forceFunctionRegion=x`;
const OWN = "https://example.com/api/billing/webhook";
const STACK = {
  apiUrl: "http://127.0.0.1:5",
  webhookUrl: `http://127.0.0.1:5${PATH}`,
  dbUrl: "postgresql://127.0.0.1:6/postgres",
  secretKey: "sb_secret_local",
};
const KEYS = {
  SUPABASE_SECRET_KEY: "sb_secret_of_this_test",
  SUPABASE_DB_URL: "postgresql://postgres.ref:hunter2@pooler.example:5432/x",
};
const NO_KEYS = {
  SUPABASE_SECRET_KEY: undefined,
  SUPABASE_DB_URL: undefined,
};
const STACK_KEYS = {
  SUPABASE_SECRET_KEY: STACK.secretKey,
  SUPABASE_DB_URL: STACK.dbUrl,
};

const UNUSED = Object.keys(KEYS).map((name) =>
  `${name} is not used with the local stack. For another project, set SUPABASE_URL.`
);

function parse(line: string, env: object, local?: typeof STACK) {
  const warnings: string[] = [];
  const warn = (text: string) => warnings.push(text);
  const args = line.split(" ").filter((it) => it !== "");
  const parsed = parseDoctorArguments(args, { env: { ...env }, warn, local });
  const { url, projectUrl, secretKey, dbUrl, provider } = parsed;
  return [url, projectUrl, secretKey, dbUrl, provider, ...warnings];
}

for (
  const [line, url, local, endpoint, project, keys, warnings] of [
    // A hosted project's secrets are not sent to a port of this machine.
    ["", "", undefined, HERE + PATH, HERE, NO_KEYS, UNUSED],
    ["", "", STACK, STACK.webhookUrl, STACK.apiUrl, STACK_KEYS, UNUSED],
    ["", `${REF}/`, STACK, REF + PATH, REF, KEYS, []],
    [`--url ${AT}`, "", STACK, AT, REF, KEYS, []],
    [`--url ${OWN}`, "", STACK, OWN, undefined, KEYS, []],
    [`--url ${OWN}`, REF, STACK, OWN, REF, KEYS, []],
    [`--url ${OWN} --project-url ${REF}/`, "", STACK, OWN, REF, KEYS, []],
    [`--project-url ${HERE}`, "", undefined, HERE + PATH, HERE, KEYS, []],
  ] as const
) {
  Deno.test(`doctor ${line} ${url} checks ${endpoint} of ${project}`, () => {
    const found = parse(line, { ...KEYS, SUPABASE_URL: url }, local);
    const { SUPABASE_SECRET_KEY: key, SUPABASE_DB_URL: database } = keys;
    assertEquals(found, [endpoint, project, key, database, "a", ...warnings]);
  });
}

Deno.test("doctor says nothing about variables that are empty, or the local stack's own", () => {
  const found = [HERE + PATH, HERE, undefined, undefined, "b"];
  const empty = { SUPABASE_SECRET_KEY: "", SUPABASE_DB_URL: "" };
  assertEquals(parse("--provider b", empty), found);
  assertEquals(parse("", STACK_KEYS, STACK), parse("", {}, STACK));
});

for (
  const [line, name, value] of [
    ["--url ref.supabase.co", "--url", ""],
    [`--url http://ref.supabase.co${PATH}`, "--url", ""],
    [`--url http://127.0.0.1.evil.example${PATH}`, "--url", ""],
    ["--project-url ref", "--project-url", ""],
    ["--project-url http://127.evil.example", "--project-url", ""],
    ["--project-url https://user:hunter2@ref.example", "--project-url", ""],
    ["--provider z", "provider", ""],
    ["--what", "--what", ""],
    ["", "SUPABASE_URL", "http://ref.supabase.co"],
    [`--url ${AT}`, "SUPABASE_DB_URL", "https://u:hunter2@example.com"],
    [`--url ${AT}`, "SUPABASE_DB_URL", "postgresql://u:p@hunter2@example.com"],
    [`--url ${AT}`, "SUPABASE_DB_URL", "postgresql://u:p@hunter2#1@e.com:5/x"],
    [`--url ${AT}`, "SUPABASE_SECRET_KEY", "sb_secret_hunter2\nsb_secret_two"],
  ] as const
) {
  Deno.test(`doctor refuses ${line} ${value}, without repeating a secret`, () => {
    const env = { [name]: value };
    const { message } = assertThrows(() => parse(line, env), UsageError, name);
    assertEquals(message.includes("hunter2"), false);
  });
}
