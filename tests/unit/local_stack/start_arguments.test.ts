import { assertEquals, assertMatch, assertThrows } from "@std/assert";
import {
  parseStartArguments,
  RESET_USAGE,
  START_USAGE,
} from "../../../scripts/local_stack/start_arguments.ts";

Deno.test("parseStartArguments() has the ports of supabase start", () => {
  assertEquals(parseStartArguments([], {}), {
    help: false,
    ports: {
      api: 54321,
      db: 54322,
      webhook: 54331,
      worker: 54332,
      postgrest: 54333,
    },
    dataDir: undefined,
  });
});

Deno.test("parseStartArguments() lets the command line win over the environment", () => {
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

Deno.test("parseStartArguments() refuses what is no port, taken twice or unknown", () => {
  for (const port of ["0", "65536", "-1", "1e3", "x", "80 "]) {
    assertThrows(
      () => parseStartArguments([], { BILLING_DB_PORT: port }),
      Error,
      "BILLING_DB_PORT",
    );
  }
  assertThrows(
    () => parseStartArguments(["--db-port", "54321"], {}),
    Error,
    "--db-port",
  );
  assertThrows(() => parseStartArguments(["--other"], {}), Error, "--other");
});

Deno.test("RESET_USAGE says that data is deleted, and has the options that reset heeds", () => {
  const options = (usage: string) => usage.match(/--[a-z-]+/g);
  assertMatch(RESET_USAGE, /^Deletes the local data/);
  assertEquals(options(RESET_USAGE), ["--data", "--help"]);
  assertEquals(options(START_USAGE), [
    "--api-port",
    "--db-port",
    "--webhook-port",
    "--worker-port",
    "--postgrest-port",
    "--data",
    "--help",
  ]);
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
