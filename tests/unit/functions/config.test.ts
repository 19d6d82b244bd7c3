import { assert, assertEquals, assertThrows } from "@std/assert";
import { readConfig } from "../../../supabase/functions/_shared/billing/config.ts";

const ENV = {
  SUPABASE_URL: "http://127.0.0.1:54321",
  SUPABASE_SECRET_KEYS: '{"default":"sb_secret_new"}',
  SUPABASE_SERVICE_ROLE_KEY: "legacy",
};

Deno.test("readConfig() has the documented defaults", () => {
  assertEquals(readConfig(ENV), {
    supabaseUrl: "http://127.0.0.1:54321",
    secretKey: "sb_secret_new",
    toleranceSeconds: 300,
    maxBodyBytes: 1_048_576,
    unmappedSubscriptions: "fail",
    oncePerInvoice: false,
  });
  const empty = {
    NOTIFY_ONCE_PER_INVOICE: "",
    SIGNATURE_TOLERANCE_SECONDS: "",
    MAX_BODY_BYTES: "",
    UNMAPPED_SUBSCRIPTIONS: "",
  };
  assertEquals(readConfig({ ...ENV, ...empty }), readConfig(ENV));
});

Deno.test("readConfig() reads the limits that are set", () => {
  const config = readConfig({
    ...ENV,
    SIGNATURE_TOLERANCE_SECONDS: "60",
    MAX_BODY_BYTES: "65536",
  });
  assertEquals([config.toleranceSeconds, config.maxBodyBytes], [60, 65_536]);
});

Deno.test("readConfig() reads NOTIFY_ONCE_PER_INVOICE", () => {
  for (const [text, oncePerInvoice] of [["true", true], ["false", false]]) {
    const config = readConfig({ ...ENV, NOTIFY_ONCE_PER_INVOICE: `${text}` });
    assertEquals<unknown>(config.oncePerInvoice, oncePerInvoice);
  }
  for (const text of ["yes", "1", "TRUE", " true", "on"]) {
    assertThrows(
      () => readConfig({ ...ENV, NOTIFY_ONCE_PER_INVOICE: text }),
      Error,
      `NOTIFY_ONCE_PER_INVOICE must be true or false, not "${text}"`,
    );
  }
});

Deno.test("readConfig() takes the legacy key if the map has none", () => {
  const maps = [
    undefined,
    "",
    "{}",
    '{"default":""}',
    '{"default":null}',
    '{"default":1}',
    "[]",
  ];
  for (const SUPABASE_SECRET_KEYS of maps) {
    const { secretKey } = readConfig({ ...ENV, SUPABASE_SECRET_KEYS });
    assertEquals(secretKey, "legacy");
  }
});

Deno.test("readConfig() takes another key of the map if none is the default", () => {
  const { secretKey } = readConfig({
    ...ENV,
    SUPABASE_SECRET_KEYS: '{"other":"sb_secret_other"}',
  });
  assertEquals(secretKey, "sb_secret_other");
});

Deno.test("readConfig() refuses a map of keys that is no JSON object, without a part of it", () => {
  for (
    const SUPABASE_SECRET_KEYS of [
      "sb_secret_plain",
      '{"default":"sb_secret_cut',
      '"sb_secret_text"',
      "null",
      "1",
    ]
  ) {
    const { message } = assertThrows(
      () => readConfig({ ...ENV, SUPABASE_SECRET_KEYS }),
      Error,
      "Cannot start: SUPABASE_SECRET_KEYS",
    );
    assert(!message.includes("sb_"), message);
  }
});

Deno.test("readConfig() refuses a key with a line break, without a part of it", () => {
  for (
    const [name, value] of [
      ["SUPABASE_SECRET_KEYS", '{"default":"sb_secret_one\\nsb_secret_two"}'],
      ["SUPABASE_SERVICE_ROLE_KEY", "sb_secret_one\r\nsb_secret_two"],
      ["SUPABASE_SERVICE_ROLE_KEY", "sb_secret_one\0"],
    ] as const
  ) {
    const { message } = assertThrows(
      () => readConfig({ ...ENV, SUPABASE_SECRET_KEYS: "", [name]: value }),
      Error,
      "Cannot start: the project's secret key contains a line break",
    );
    assert(!message.includes("sb_"), message);
  }
});

Deno.test("readConfig() names the variable that is missing", () => {
  for (const SUPABASE_URL of [undefined, ""]) {
    assertThrows(
      () => readConfig({ ...ENV, SUPABASE_URL }),
      Error,
      "Cannot start: SUPABASE_URL",
    );
  }
  assertThrows(
    () => readConfig({ SUPABASE_URL: ENV.SUPABASE_URL }),
    Error,
    "Cannot start: SUPABASE_SECRET_KEYS (or SUPABASE_SERVICE_ROLE_KEY) is not set.",
  );
});

Deno.test("readConfig() refuses a limit that is no whole number above 0", () => {
  const texts = [
    "0",
    "-1",
    "1.5",
    "1e3",
    "0x10",
    " 300",
    "300 ",
    "300s",
    "0300",
    "NaN",
    "Infinity",
    "1".repeat(11),
  ];
  for (const name of ["SIGNATURE_TOLERANCE_SECONDS", "MAX_BODY_BYTES"]) {
    for (const text of texts) {
      assertThrows(
        () => readConfig({ ...ENV, [name]: text }),
        Error,
        `Cannot start: ${name}`,
      );
    }
  }
});

Deno.test("readConfig() takes fail or ignore for unmapped subscriptions, and refuses the rest", () => {
  for (const choice of ["fail", "ignore"]) {
    const env = { ...ENV, UNMAPPED_SUBSCRIPTIONS: choice };
    assertEquals<string>(readConfig(env).unmappedSubscriptions, choice);
  }
  for (const text of ["Ignore", "ignore ", "true", "1", "no"]) {
    assertThrows(
      () => readConfig({ ...ENV, UNMAPPED_SUBSCRIPTIONS: text }),
      Error,
      "Cannot start: UNMAPPED_SUBSCRIPTIONS must be fail or ignore",
    );
  }
});
