import { assertEquals, assertThrows } from "@std/assert";
import { UsageError } from "../../../scripts/common/cli.ts";
import { parseStartArguments } from "../../../scripts/local_stack/start_arguments.ts";

Deno.test("parseStartArguments() has the ports of supabase start", () => {
  assertEquals(parseStartArguments([], {}), {
    ports: {
      api: 54321,
      db: 54322,
      webhook: 54331,
      worker: 54332,
      postgrest: 54333,
    },
    dataDir: undefined,
    json: false,
  });
});

Deno.test("parseStartArguments() moves all ports with --port-base", () => {
  const moved = {
    api: 4321,
    db: 4322,
    webhook: 4331,
    worker: 4332,
    postgrest: 4333,
  };
  assertEquals(parseStartArguments(["--port-base", "4300"], {}).ports, moved);
  const env = { BILLING_PORT_BASE: "4300" };
  assertEquals(parseStartArguments([], env).ports, moved);
  assertEquals(
    parseStartArguments(["--port-base=4300", "--db-port", "5"], {
      BILLING_PORT_BASE: "9000",
      BILLING_API_PORT: "6",
    }).ports,
    { ...moved, db: 5, api: 6 },
  );
  for (const base of ["0", "65503", "x"]) {
    assertThrows(
      () => parseStartArguments(["--port-base", base], {}),
      UsageError,
      "from 1 to 65502",
    );
  }
});

Deno.test("parseStartArguments() prefers the command line to the environment", () => {
  const { ports, dataDir } = parseStartArguments(
    ["--api-port", "1001", "--data", "/tmp/one"],
    {
      BILLING_API_PORT: "2001",
      BILLING_DB_PORT: "2002",
      BILLING_WORKER_PORT: "",
      BILLING_STACK_DATA: "/tmp/two",
    },
  );
  assertEquals(ports.api, 1001);
  assertEquals(ports.db, 2002);
  assertEquals(ports.worker, 54332);
  assertEquals(dataDir, "/tmp/one");
});

Deno.test("parseStartArguments() refuses an invalid port, a port used twice and an unknown option", () => {
  for (const port of ["0", "65536", "-1", "1e3", "x", "80 "]) {
    assertThrows(
      () => parseStartArguments([], { BILLING_DB_PORT: port }),
      UsageError,
      "BILLING_DB_PORT",
    );
  }
  assertThrows(
    () => parseStartArguments(["--db-port", "54321"], {}),
    UsageError,
    "--db-port",
  );
  assertThrows(
    () => parseStartArguments(["--other"], {}),
    UsageError,
    "--other",
  );
});

Deno.test("the ports are those that config.toml gives supabase start", async () => {
  const config = await Deno.readTextFile(
    new URL("../../../supabase/config.toml", import.meta.url),
  );
  const port = (table: string) =>
    Number(
      new RegExp(`^\\[${table}\\]\nport = (\\d+)$`, "m").exec(config)?.[1],
    );
  const { ports } = parseStartArguments([], {});
  assertEquals(
    { api: port("api"), db: port("db") },
    { api: ports.api, db: ports.db },
  );
});
