import { assert, assertEquals, assertThrows } from "@std/assert";
import {
  type Config,
  type Environment,
  readConfig,
} from "../../../supabase/functions/_shared/billing/config.ts";

const ENV = {
  SUPABASE_URL: "http://127.0.0.1:54321",
  SUPABASE_SECRET_KEYS: '{"default":"sb_secret_new"}',
  SUPABASE_SERVICE_ROLE_KEY: "legacy",
};
const DEFAULTS: Config = {
  supabaseUrl: "http://127.0.0.1:54321",
  secretKey: "sb_secret_new",
  toleranceSeconds: 300,
  maxBodyBytes: 1_048_576,
  unmappedSubscriptions: "fail",
  oncePerInvoice: false,
};
const keys = (SUPABASE_SECRET_KEYS: string | undefined) => ({
  SUPABASE_SECRET_KEYS,
});

const SETTINGS: [expected: Partial<Config>, ...environments: Environment[]][] =
  [
    [{}, {}, {
      NOTIFY_ONCE_PER_INVOICE: "",
      SIGNATURE_TOLERANCE_SECONDS: "",
      MAX_BODY_BYTES: "",
      UNMAPPED_SUBSCRIPTIONS: "",
    }],
    [{ toleranceSeconds: 1 }, { SIGNATURE_TOLERANCE_SECONDS: "1" }],
    [{ maxBodyBytes: 9_999_999_999 }, { MAX_BODY_BYTES: "9999999999" }],
    [{ unmappedSubscriptions: "ignore" }, { UNMAPPED_SUBSCRIPTIONS: "ignore" }],
    [{ oncePerInvoice: true }, { NOTIFY_ONCE_PER_INVOICE: "true" }],
    [
      { secretKey: "legacy" },
      ...[undefined, "", "{}", "[]", '{"default":""}', '{"default":null}'].map(
        keys,
      ),
      keys('{"default":1}'),
    ],
    [{ secretKey: "two" }, keys('{"one":"one","default":"two"}')],
    [{ secretKey: "one" }, keys('{"":"","one":"one","two":"two"}')],
    // White space around a key is no fault.
    [{ secretKey: "one\n" }, keys('{"default":"one\\n"}')],
  ];
Deno.test("readConfig() reads what is set, and has the documented defaults", () => {
  for (const [expected, ...environments] of SETTINGS) {
    for (const env of environments) {
      const config = readConfig({ ...ENV, ...env });
      assertEquals(config, { ...DEFAULTS, ...expected }, JSON.stringify(env));
    }
  }
});

const NUMBERS = [
  ...["0", "-1", "1.5", "1e3", "0x10", " 300", "300 ", "300s", "0300", "NaN"],
  "1".repeat(11),
];
const UNSET = ["", undefined];
const ONE_LINE = "the project's secret key contains a line break";
const REFUSED: [says: string, name: string, values: (string | undefined)[]][] =
  [
    ["SUPABASE_URL is not set", "SUPABASE_URL", UNSET],
    ...["SIGNATURE_TOLERANCE_SECONDS", "MAX_BODY_BYTES"].map((
      name,
    ): (typeof REFUSED)[number] => [
      `${name} must be a whole number above 0`,
      name,
      NUMBERS,
    ]),
    [
      "UNMAPPED_SUBSCRIPTIONS must be fail or ignore",
      "UNMAPPED_SUBSCRIPTIONS",
      ["Ignore", "ignore ", "true", "1", "no"],
    ],
    [
      "NOTIFY_ONCE_PER_INVOICE must be true or false",
      "NOTIFY_ONCE_PER_INVOICE",
      ["yes", "1", "TRUE", " true", "on"],
    ],
    [
      "SUPABASE_SECRET_KEYS must be a JSON object",
      "SUPABASE_SECRET_KEYS",
      ["LEAKED", '{"default":"LEAKED', '"LEAKED"', "null", "1"],
    ],
    [ONE_LINE, "SUPABASE_SECRET_KEYS", [
      ...['{"default":"LEAKED\\nx"}', '{"default":"LEAKED \\r\\n x"}'],
      '{"default":"LEAKED\\u0000"}',
    ]],
  ];
Deno.test("readConfig() refuses what is wrong, and names the variable, never a key", () => {
  for (const [says, name, values] of REFUSED) {
    for (const value of values) {
      const { message } = assertThrows(
        () => readConfig({ ...ENV, [name]: value }),
        Error,
        `Cannot start: ${says}`,
      );
      assert(!message.includes("LEAKED"), message);
    }
  }
  assertThrows(
    () => readConfig({ SUPABASE_URL: ENV.SUPABASE_URL }),
    Error,
    "Cannot start: SUPABASE_SECRET_KEYS (or SUPABASE_SERVICE_ROLE_KEY) is not set.",
  );
});
