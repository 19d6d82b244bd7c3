import { assertEquals, assertThrows } from "@std/assert";
import { UsageError } from "../../../scripts/common/cli.ts";
import { parseStartArguments } from "../../../scripts/local_stack/start_arguments.ts";

const FREE = { worker: 0, postgrest: 0 };
const STANDARD = { ...FREE, api: 54321, db: 54322, webhook: 54331 };
const MOVED = { ...FREE, api: 4321, db: 4322, webhook: 4331 };
const DIR = { BILLING_STACK_DATA: "/tmp/two" };

for (
  const [args, env, ports, dataDir] of [
    [[], {}, STANDARD, undefined],
    [["--port-base", "4300"], {}, MOVED, undefined],
    [[], { BILLING_PORT_BASE: "4300" }, MOVED, undefined],
    [
      ["--port-base=4300", "--db-port", "5"],
      { BILLING_PORT_BASE: "9000", BILLING_API_PORT: "6" },
      { ...MOVED, db: 5, api: 6 },
      undefined,
    ],
    [
      ["--worker-port", "1001", "--data", "/tmp/one"],
      { BILLING_WORKER_PORT: "2001", BILLING_DB_PORT: "", ...DIR },
      { ...STANDARD, worker: 1001 },
      "/tmp/one",
    ],
    [[], DIR, STANDARD, "/tmp/two"],
  ] as const
) {
  Deno.test(`parseStartArguments() of ${JSON.stringify([args, env])}`, () => {
    const parsed = parseStartArguments(args, env);
    assertEquals(parsed, { ports, dataDir, json: false });
  });
}

for (
  const [args, env, message] of [
    [["--port-base", "65505"], {}, "from 1 to 65504"],
    [[], { BILLING_DB_PORT: "1e3" }, "BILLING_DB_PORT"],
    [["--postgrest-port", "0"], {}, "--postgrest-port"],
    [["--db-port", "54321"], {}, "--api-port and --db-port are both 54321"],
  ] as const
) {
  Deno.test(`parseStartArguments() refuses ${JSON.stringify([args, env])}`, () => {
    assertThrows(() => parseStartArguments(args, env), UsageError, message);
  });
}

Deno.test("the ports are those that config.toml gives supabase start", async () => {
  const config = await Deno.readTextFile(
    new URL("../../../supabase/config.toml", import.meta.url),
  );
  for (const name of ["api", "db"] as const) {
    const port = new RegExp(`^\\[${name}\\]\nport = (\\d+)$`, "m");
    assertEquals(port.exec(config)?.[1], `${STANDARD[name]}`);
  }
});
