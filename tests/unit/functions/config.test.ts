import { assert, assertEquals, assertThrows } from "@std/assert";
import {
  type Config,
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
const SECRETS = "SUPABASE_SECRET_KEYS";
const TOLERANCE = "SIGNATURE_TOLERANCE_SECONDS";
const UNMAPPED = "UNMAPPED_SUBSCRIPTIONS";
const ONCE = "NOTIFY_ONCE_PER_INVOICE";
type Values = (string | undefined)[];

const SETTINGS: [expected: Partial<Config>, name: string, ...Values][] = [
  ...[TOLERANCE, "MAX_BODY_BYTES", UNMAPPED, ONCE]
    .map((name): [object, string, string] => [{}, name, ""]),
  [{ toleranceSeconds: 1 }, TOLERANCE, "1"],
  [{ maxBodyBytes: 9_999_999_999 }, "MAX_BODY_BYTES", "9999999999"],
  [{ unmappedSubscriptions: "ignore" }, UNMAPPED, "ignore"],
  [{ oncePerInvoice: true }, ONCE, "true"],
  [{ secretKey: "legacy" }, SECRETS, undefined, "", "{}", "[]", '{"a":1}'],
  [{ secretKey: "legacy" }, SECRETS, '{"default":""}', '{"default":null}'],
  [{ secretKey: "two" }, SECRETS, '{"one":"one","default":"two"}'],
  [{ secretKey: "one" }, SECRETS, '{"":"","one":"one","two":"two"}'],
  // White space around a key is no fault.
  [{ secretKey: "one\n" }, SECRETS, '{"default":"one\\n"}'],
];
Deno.test("readConfig() reads what is set, and has the documented defaults", () => {
  assertEquals(readConfig(ENV), DEFAULTS);
  for (const [expected, name, ...values] of SETTINGS) {
    for (const value of values) {
      const config = readConfig({ ...ENV, [name]: value });
      assertEquals(config, { ...DEFAULTS, ...expected }, `${name}=${value}`);
    }
  }
});

const NUMBERS = [
  ...["0", "-1", "1.5", "1e3", "0x10", " 300", "300 ", "300s", "0300", "NaN"],
  "1".repeat(11),
];
const CUT = '{"default":"LEAKED';
/** A setting, what is said of it, and values that are refused. */
const REFUSED: [name: string, says: string, values: Values][] = [
  ["SUPABASE_URL", " is not set", ["", undefined]],
  [TOLERANCE, " must be a whole number above 0", NUMBERS],
  ["MAX_BODY_BYTES", " must be a whole number above 0", NUMBERS],
  [UNMAPPED, " must be fail or ignore", ["Ignore", "ignore ", "true", "1"]],
  [ONCE, " must be true or false", ["yes", "1", "TRUE", " true", "on"]],
  [SECRETS, " must be a JSON", ["LEAKED", CUT, '"LEAKED"', "null", "1"]],
  [SECRETS, "", [`${CUT}\\nx"}`, `${CUT} \\r\\n x"}`, `${CUT}\\u0000"}`]],
];
Deno.test("readConfig() refuses what is wrong, and names the variable, never a key", () => {
  for (const [name, says, values] of REFUSED) {
    const named = says === ""
      ? "the project's secret key contains a line break"
      : name + says;
    for (const value of values) {
      const start = () => readConfig({ ...ENV, [name]: value });
      const { message } = assertThrows(start, Error, `Cannot start: ${named}`);
      assert(!message.includes("LEAKED"), message);
    }
  }
  assertThrows(
    () => readConfig({ SUPABASE_URL: ENV.SUPABASE_URL }),
    Error,
    "Cannot start: SUPABASE_SECRET_KEYS (or SUPABASE_SERVICE_ROLE_KEY) is not set.",
  );
});
