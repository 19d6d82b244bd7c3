import { assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { parseDoctorArguments } from "../../../scripts/doctor/arguments.ts";
import { HelpRequest, UsageError } from "../../../scripts/common/cli.ts";
import { LOCAL_WEBHOOK_URL } from "../../../scripts/common/loopback.ts";

const KEY = "sb_secret_of_this_test";
const DB_URL = "postgresql://postgres.ref:hunter2@pooler.example:5432/postgres";

const URL_OF_PROJECT = "https://ref.supabase.co/functions/v1/billing-webhook";
const LOCAL = {
  apiUrl: "http://127.0.0.1:5",
  webhookUrl: "http://127.0.0.1:5/functions/v1/billing-webhook",
  dbUrl: "postgresql://127.0.0.1:6/postgres",
  secretKey: "sb_secret_local",
};

function parse(
  args: string[],
  { env = {}, warn = unexpected }: {
    env?: Record<string, string>;
    warn?: (text: string) => void;
  } = {},
) {
  return parseDoctorArguments(args, { env, warn });
}

function unexpected(warning: string): void {
  throw new Error(`Warned: ${warning}`);
}

Deno.test("parseDoctorArguments() checks the local stack by default", () => {
  assertEquals(parse([]), {
    url: LOCAL_WEBHOOK_URL,
    projectUrl: "http://127.0.0.1:54321",
    secretKey: undefined,
    dbUrl: undefined,
    provider: "a",
  });
});

Deno.test("parseDoctorArguments() takes the project from the endpoint", () => {
  const url =
    "https://ref.supabase.co/functions/v1/billing-webhook?forceFunctionRegion=eu-central-1";
  const parsed = parse(["--url", url]);
  assertEquals(parsed.url, url);
  assertEquals(parsed.projectUrl, "https://ref.supabase.co");
});

Deno.test("parseDoctorArguments() does not guess the project of a custom URL", () => {
  const url = "https://example.com/api/billing/webhook";
  assertEquals(parse(["--url", url]).projectUrl, undefined);
  assertEquals(
    parse([
      "--url",
      url,
      "--project-url",
      "https://ref.supabase.co/",
    ]).projectUrl,
    "https://ref.supabase.co",
  );
});

Deno.test("parseDoctorArguments() explains the options and variables", () => {
  const { message } = assertThrows(() => parse(["--help"]), HelpRequest);
  for (const name of ["--url URL", "SUPABASE_DB_URL", "Exit code"]) {
    assertStringIncludes(message, name);
  }
});

for (
  const args of [
    ["--url", "ref.supabase.co"],
    ["--project-url", "ref"],
    ["--project-url", "http://ref.supabase.co"],
    ["--project-url", "http://127.evil.example"],
    ["--project-url", "https://user:hunter2@ref.supabase.co"],
    ["--url", "http://ref.supabase.co/functions/v1/billing-webhook"],
    ["--url", "http://127.0.0.1.evil.example/functions/v1/billing-webhook"],
    ["--provider", "z"],
    ["--what"],
  ]
) {
  Deno.test(`parseDoctorArguments() refuses ${args[0]} ${args[1] ?? ""}`, () => {
    const warn = () => {};
    const error = assertThrows(() => parse(args, { warn }), UsageError);
    assertEquals(error.message.includes("hunter2"), false);
  });
}

Deno.test("parseDoctorArguments() reads project and secrets from the environment", () => {
  const env = {
    SUPABASE_URL: "https://ref.supabase.co/",
    SUPABASE_SECRET_KEY: KEY,
    SUPABASE_DB_URL: DB_URL,
  };
  assertEquals(parse([], { env }), {
    url: "https://ref.supabase.co/functions/v1/billing-webhook",
    projectUrl: "https://ref.supabase.co",
    secretKey: KEY,
    dbUrl: DB_URL,
    provider: "a",
  });
  const own = "https://example.com/api/billing/webhook";
  const parsed = parse(["--url", own], { env });
  assertEquals([parsed.url, parsed.projectUrl], [
    own,
    env.SUPABASE_URL.slice(0, -1),
  ]);
});

Deno.test("parseDoctorArguments() treats an empty variable as not set", () => {
  const env = {
    SUPABASE_URL: "",
    SUPABASE_SECRET_KEY: "",
    SUPABASE_DB_URL: "",
  };
  assertEquals(parse([], { env }), parse([]));
});

for (
  const [name, value] of [
    ["SUPABASE_URL", "http://ref.supabase.co"],
    ["SUPABASE_URL", "ref.supabase.co"],
    ["SUPABASE_DB_URL", "https://u:hunter2@example.com"],
    ["SUPABASE_DB_URL", "postgresql://u:p@hunter2#1@example.com:5432/postgres"],
    ["SUPABASE_DB_URL", "postgresql://u:p@hunter2@example.com:5432/postgres"],
  ] as const
) {
  Deno.test(`parseDoctorArguments() refuses ${name} ${value}`, () => {
    const error = assertThrows(
      () => parse(["--url", URL_OF_PROJECT], { env: { [name]: value } }),
      UsageError,
      name,
    );
    assertEquals(error.message.includes("hunter2"), false);
  });
}

Deno.test("parseDoctorArguments() takes key and database of the local stack that runs, without a URL", () => {
  const withLocal = (args: string[], env = {}) =>
    parseDoctorArguments(args, { env, warn: () => {}, local: LOCAL });
  assertEquals(withLocal([]), {
    url: LOCAL.webhookUrl,
    projectUrl: LOCAL.apiUrl,
    secretKey: LOCAL.secretKey,
    dbUrl: LOCAL.dbUrl,
    provider: "a",
  });
  const hosted = { SUPABASE_URL: "https://abc.supabase.co" };
  for (
    const other of [
      withLocal(["--url", "https://example.com/hook"]),
      withLocal(["--project-url", "https://abc.supabase.co"]),
      withLocal([], hosted),
    ]
  ) {
    assertEquals([other.secretKey, other.dbUrl], [undefined, undefined]);
  }
});

Deno.test("parseDoctorArguments() keeps the secrets of a hosted project from the local stack", () => {
  const env = { SUPABASE_SECRET_KEY: KEY, SUPABASE_DB_URL: DB_URL };
  for (const local of [LOCAL, undefined]) {
    const warnings: string[] = [];
    const warn = (text: string) => warnings.push(text);
    const { secretKey, dbUrl } = parseDoctorArguments([], { env, warn, local });
    assertEquals([secretKey, dbUrl], [local?.secretKey, local?.dbUrl]);
    assertEquals(warnings, [
      "SUPABASE_SECRET_KEY is not used with the local stack. For another project, set SUPABASE_URL.",
      "SUPABASE_DB_URL is not used with the local stack. For another project, set SUPABASE_URL.",
    ]);
  }
});

Deno.test("parseDoctorArguments() uses the variables for a URL that is given, also on this machine", () => {
  const env = { SUPABASE_SECRET_KEY: KEY, SUPABASE_DB_URL: DB_URL };
  const project = "http://127.0.0.1:54321";
  for (
    const parsed of [
      parse(["--project-url", project], { env }),
      parse(["--url", `${project}/functions/v1/billing-webhook`], { env }),
      parse([], { env: { ...env, SUPABASE_URL: project } }),
    ]
  ) {
    assertEquals([parsed.secretKey, parsed.dbUrl], [KEY, DB_URL]);
  }
});

Deno.test("parseDoctorArguments() says nothing about variables that are the local stack's own", () => {
  const env = {
    SUPABASE_SECRET_KEY: LOCAL.secretKey,
    SUPABASE_DB_URL: LOCAL.dbUrl,
  };
  const here = { env, warn: unexpected, local: LOCAL };
  assertEquals(parseDoctorArguments([], here).secretKey, LOCAL.secretKey);
});

Deno.test("parseDoctorArguments() refuses a key with a line break, without repeating it", () => {
  const { message } = assertThrows(
    () =>
      parse(["--url", "https://abc.supabase.co/functions/v1/billing-webhook"], {
        env: { SUPABASE_SECRET_KEY: "sb_secret_one\nsb_secret_two" },
      }),
    UsageError,
    "SUPABASE_SECRET_KEY contains a line break",
  );
  assertEquals(message.includes("sb_secret_"), false);
});
