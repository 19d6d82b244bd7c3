import { assert, assertEquals, assertRejects } from "@std/assert";
import { lookUpProcess } from "../../../scripts/common/processes.ts";
import { spawnGroup } from "../../../scripts/local_stack/tools.ts";
import { openStateFolder } from "../../../scripts/local_stack/state_folder.ts";

/** Gives the path of a new folder, without a slash at its end. */
function test(name: string, use: (path: string) => Promise<void>) {
  Deno.test(name, async () => {
    const path = await Deno.makeTempDir();
    await use(path);
    await Deno.remove(path, { recursive: true });
  });
}

async function refused(path: string, reason: string) {
  await assertRejects(() => openStateFolder(path), Error, reason);
}

test("openStateFolder() leaves a folder alone that is not its own", async (path) => {
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
});

test("openStateFolder() opens its own folder again, for one process at a time, and empties it", async (parent) => {
  const path = `${parent}/a/folder`;
  const first = await openStateFolder(path);
  await Deno.mkdir(first.database);
  await refused(path, `a stack already runs on it (process ${Deno.pid})`);
  first.close();
  const again = await openStateFolder(path);
  assert((await Deno.stat(again.database)).isDirectory);
  await Deno.writeTextFile(`${path}/notes`, "of the user");
  await again.empty();
  const left = Array.from(Deno.readDirSync(path), ({ name }) => name);
  assertEquals(left, ["notes"]);
  await Deno.remove(`${path}/notes`);
  await (await openStateFolder(path)).empty();
  await assertRejects(() => Deno.lstat(path), Deno.errors.NotFound);
});

test("openStateFolder() ends the processes that were recorded, and no others of the same id", async (path) => {
  const sleep = () =>
    spawnGroup({ command: "sleep", args: ["60"], options: {} });
  const [recorded, other] = [sleep(), sleep()];
  const folder = await openStateFolder(path);
  await folder.record(recorded.child.pid);
  const lock = `${path}/lock`;
  await Deno.writeTextFile(lock, `${other.child.pid} 1\n`, { append: true });
  folder.close();
  (await openStateFolder(path)).close();
  assertEquals((await recorded.ended).signal, "SIGINT");
  assert(await lookUpProcess(other.child.pid));
  assertEquals(await Deno.readTextFile(lock), `${Deno.pid}\n`);
  other.kill("SIGKILL");
  await other.ended;
});
