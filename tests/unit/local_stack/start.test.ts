import {
  assert,
  assertEquals,
  assertRejects,
  assertStringIncludes,
  assertThrows,
} from "@std/assert";
import { UsageError } from "../../../scripts/common/cli.ts";
import { LOCAL_SIGNING_SECRETS } from "../../../scripts/common/environment.ts";
import { localKeys } from "../../../scripts/local_stack/keys.ts";
import { lookUpProcess } from "../../../scripts/common/processes.ts";
import { spawnGroup } from "../../../scripts/local_stack/tools.ts";
import { announcement } from "../../../scripts/local_stack/announcement.ts";
import { holdPorts } from "../../../scripts/local_stack/ports.ts";
import { parseStartArguments } from "../../../scripts/local_stack/start_arguments.ts";
import { openStateFolder } from "../../../scripts/local_stack/state_folder.ts";
import { freePort } from "../../support/machine.ts";

/** The first two as with `supabase start`. */
const STANDARD = {
  api: 54321,
  db: 54322,
  webhook: 54331,
  worker: 0,
  postgrest: 0,
};
const MOVED = { ...STANDARD, api: 4321, db: 4322, webhook: 4331 };
const DIR = { BILLING_STACK_DATA: "/tmp/two" };

const TAKEN = [
  ["", DIR, STANDARD, "/tmp/two"],
  ["--port-base 4300", {}, MOVED],
  ["", { BILLING_PORT_BASE: "4300" }, MOVED],
  ["--port-base=4300 --db-port 5 --api-port 6", {
    BILLING_PORT_BASE: "9000",
  }, { ...MOVED, db: 5, api: 6 }],
  ["--worker-port 1 --data /one", DIR, { ...STANDARD, worker: 1 }, "/one"],
] as const;

Deno.test("parseStartArguments() moves the ports; options win over variables", () => {
  for (const [line, env, ports, dataDir = undefined] of TAKEN) {
    assertEquals<unknown>(
      parseStartArguments(line.split(" ").filter(Boolean), env),
      { ports, dataDir },
    );
  }
  for (
    const [line, env, message] of [
      ["--port-base 65505", {}, "from 1 to 65504"],
      ["", { BILLING_PORT_BASE: "1e3" }, "BILLING_PORT_BASE"],
      ["--postgrest-port 0", {}, "--postgrest-port"],
      ["--db-port 54321", {}, "--api-port and --db-port are both 54321"],
    ] as const
  ) {
    const args = line.split(" ").filter(Boolean);
    assertThrows(() => parseStartArguments(args, env), UsageError, message);
  }
});

const listen = (port: number) =>
  Deno.listen({ hostname: "127.0.0.1", port }).close();

Deno.test("holdPorts() holds ports until they are freed, and names one in use", async () => {
  const db = await freePort();
  using held = await holdPorts({ db });
  const { ports } = held;
  assertEquals([new Set(Object.values(ports)).size, ports.db], [5, db]);
  for (const port of Object.values(ports)) {
    assert(port < 33_000, "the system gives it to outgoing connections");
    assertThrows(() => listen(port), Deno.errors.AddrInUse);
  }

  held.free("postgrest");
  listen(ports.postgrest);
  const other = await freePort();
  await assertRejects(
    () => holdPorts({ db: other, worker: db }),
    Error,
    `${db} is already in use. Stop what uses it or choose another: --worker-port N, or --port-base N`,
  );
  listen(other);
});

Deno.test("openStateFolder() leaves a folder alone that is not its own", async () => {
  const path = await Deno.makeTempDir();
  const refused = (folder: string, reason: string) =>
    assertRejects(() => openStateFolder(folder), Error, reason);
  const file = `${path}/database/file`;
  await Deno.mkdir(`${path}/database`);
  await Deno.writeTextFile(file, "precious");
  await Deno.symlink(path, `${path}/link`);
  await refused(`${path}/link`, "it is a symbolic link");
  await refused(path, "it contains other files");

  await Deno.symlink(file, `${path}/lock`);
  await refused(path, "its lock is not a file of this account");

  // Empty, or with a lock: it may be taken back at any time.
  const other = `${path}/other`;
  await Deno.mkdir(other);
  if (Deno.uid() === 0) await Deno.chown(other, 65_534, 65_534);
  const foreign = Deno.uid() === 0 ? other : "/usr";
  await refused(foreign, "another account owns it");
  assertEquals(await Deno.readTextFile(file), "precious");
  await Deno.remove(path, { recursive: true });
});

Deno.test("openStateFolder() opens its folder for one process, and empties it", async () => {
  const parent = await Deno.makeTempDir();
  const path = `${parent}/a/folder`;
  const first = await openStateFolder(path);
  await Deno.mkdir(first.database);
  const reason = `a stack already runs on it (process ${Deno.pid})`;
  await assertRejects(() => openStateFolder(path), Error, reason);

  // A stack was killed, and has left one of these processes.
  const sleep = () =>
    spawnGroup({ command: "sleep", args: ["600"], options: {} });
  const [left, other] = [sleep(), sleep()];
  await first.record(left.child.pid);
  const lock = `${path}/lock`;
  await Deno.writeTextFile(lock, `${other.child.pid} 1\n`, { append: true });
  first.close();

  const again = await openStateFolder(path);
  assertEquals((await left.ended).signal, "SIGINT");
  assert(await lookUpProcess(other.child.pid));
  assertEquals(await Deno.readTextFile(lock), `${Deno.pid}\n`);
  other.kill("SIGKILL");
  await other.ended;
  assert((await Deno.stat(again.database)).isDirectory);

  await Deno.writeTextFile(`${path}/notes`, "of the user");
  await again.empty();
  const names = Array.from(Deno.readDirSync(path), ({ name }) => name);
  assertEquals(names, ["notes"]);
  await Deno.remove(`${path}/notes`);
  await (await openStateFolder(path)).empty();
  await assertRejects(() => Deno.lstat(path), Deno.errors.NotFound);
  await Deno.remove(parent, { recursive: true });
});

Deno.test("announcement() prints the local secrets, and only names the user's", async () => {
  const api = "http://127.0.0.1:57021";
  const urls = { api, rest: api, webhook: api, worker: api };
  const stack = {
    urls: { ...urls, webhookProcess: api },
    keys: await localKeys(),
    dbUrl: "postgresql://127.0.0.1",
  };
  const text = announcement(stack, {
    env: {
      ...LOCAL_SIGNING_SECRETS,
      PROVIDER_A_SIGNING_SECRET: "whsec_MINE",
      NOTIFICATION_URL: "https://MINE:MINE@hooks.example/x/MINE?key=MINE",
    },
    dataDir: "/tmp/my data",
    isDefault: false,
  });

  assertEquals(text.includes("MINE"), false, text);
  for (
    const part of [
      "console --project-url http://127.0.0.1:57021\n",
      "task reset --data '/tmp/my data'",
      LOCAL_SIGNING_SECRETS.PROVIDER_B_SIGNING_SECRET,
    ]
  ) assertStringIncludes(text, part);
});
