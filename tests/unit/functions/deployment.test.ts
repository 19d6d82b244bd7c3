import { assert, assertEquals, assertThrows } from "@std/assert";
import { readDeploymentSettings } from "../../../supabase/functions/_shared/billing/settings/deployment.ts";

const ENV = {
  SUPABASE_URL: "http://127.0.0.1:54321",
  SUPABASE_SECRET_KEYS: '{"default":"sb_secret_new"}',
  SUPABASE_SERVICE_ROLE_KEY: "legacy",
};
const DEFAULTS: ReturnType<typeof readDeploymentSettings> = {
  supabaseUrl: "http://127.0.0.1:54321",
  secretKey: "sb_secret_new",
  toleranceSeconds: 300,
  maxBodyBytes: 1_048_576,
  unmappedSubscriptions: "fail",
  oncePerInvoice: false,
  handlerTypes: { types: new Set() },
  accountFromCheckout: false,
  planItem: "first",
  notify: new Set(["payment_failed"]),
};

const handlers = (types: string[], fault?: string) => ({
  handlerTypes: {
    types: new Set(types),
    ...(fault && { fault: `HANDLE_EVENT_TYPES: ${fault}` }),
  },
});
const LONG = "a".repeat(100);
const ALIKE = "a".repeat(60);
const NO_NUMBER = "must be a whole number above 0";
const CUT = '{"default":"LEAKED';
const BROKEN = "the project's secret key contains a line break";

const SETTINGS: Record<
  string,
  [expected: object | string, ...values: (string | undefined)[]][]
> = {
  SUPABASE_URL: [["is not set", "", undefined]],
  SIGNATURE_TOLERANCE_SECONDS: [
    [{}, "", undefined],
    [{ toleranceSeconds: 1 }, "1"],
    [NO_NUMBER, "0", "-1", "1.5", "300s", "0300", "1".repeat(11)],
  ],
  MAX_BODY_BYTES: [
    [{ maxBodyBytes: 9_999_999_999 }, "9999999999"],
    [NO_NUMBER, "0"],
  ],
  UNMAPPED_SUBSCRIPTIONS: [
    [{}, "", "fail"],
    [{ unmappedSubscriptions: "ignore" }, "ignore"],
    ["must be fail or ignore", "Ignore", "ignore ", "true", "1"],
  ],
  NOTIFY_ONCE_PER_INVOICE: [
    [{ oncePerInvoice: true }, "true"],
    ["must be false or true", "yes", "1", "TRUE", " true"],
  ],
  NOTIFY: [
    [{ notify: new Set(["ended", "recovered"]) }, "ended, recovered"],
    ["must list some of payment_failed, trial", "x", "ended,", "*"],
  ],
  PLAN_ITEM: [
    [{ planItem: "licensed" }, "licensed"],
    ["must be first or licensed", "metered", "Licensed"],
  ],
  ACCOUNT_FROM_CHECKOUT: [[{ accountFromCheckout: true }, "true"]],
  HANDLE_EVENT_TYPES: [
    [{}, "", undefined],
    [handlers(["a.b", "a.c-1_2"]), "a.b,a.c-1_2", " a.b ,a.c-1_2,a.b "],
    [handlers([LONG]), LONG],
    [handlers([], '"A.b" is not an event type'), "A.b"],
    [handlers(["a.b"], '"" is not an event type'), "a.b,"],
    [handlers([], `"${LONG}" is not an event type`), `${LONG}a`],
    [
      handlers(
        ["a.b", "c"],
        '"x y" is not an event type; a.b and a_b would have the same function',
      ),
      "a.b,x y,c,a_b",
    ],
    // Postgres cuts a name off.
    [
      handlers([ALIKE], `${ALIKE} and ${ALIKE}2 would have the same function`),
      `${ALIKE},${ALIKE}2`,
    ],
  ],
  SUPABASE_SECRET_KEYS: [
    [{ secretKey: "legacy" }, undefined, "", "{}", "[]", '{"a":1}'],
    [{ secretKey: "legacy" }, '{"default":""}', '{"default":null}'],
    [{ secretKey: "two" }, '{"one":"one","default":"two"}'],
    [{ secretKey: "one" }, '{"":"","one":"one","two":"two"}'],
    // White space around a key is no fault.
    [{ secretKey: "one\n" }, '{"default":"one\\n"}'],
    [BROKEN, `${CUT}\\nx"}`, `${CUT} \\r\\n x"}`, `${CUT}\\u0000"}`],
    ["must be a JSON", "LEAKED", CUT, '"LEAKED"', "null", "1"],
  ],
};
Deno.test("readDeploymentSettings() has the documented defaults, and refuses without a secret value", () => {
  assertEquals(readDeploymentSettings(ENV), DEFAULTS);
  for (const [name, rows] of Object.entries(SETTINGS)) {
    for (const [expected, ...values] of rows) {
      for (const value of values) {
        const read = () => readDeploymentSettings({ ...ENV, [name]: value });
        if (typeof expected === "object") {
          assertEquals<unknown>(
            read(),
            { ...DEFAULTS, ...expected },
            `${name}=${value}`,
          );
          continue;
        }
        const says = expected === BROKEN ? BROKEN : `${name} ${expected}`;
        const refusal = assertThrows(read, Error, `Cannot start: ${says}`);
        assert(!refusal.message.includes("LEAKED"), refusal.message);
      }
    }
  }
  assertThrows(
    () => readDeploymentSettings({ SUPABASE_URL: ENV.SUPABASE_URL }),
    Error,
    "SUPABASE_SECRET_KEYS (or SUPABASE_SERVICE_ROLE_KEY) is not set",
  );
});
