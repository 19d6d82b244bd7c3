import { assert, assertEquals, assertRejects } from "@std/assert";
import { join } from "node:path";
import {
  emptyStateFolder,
  openStateFolder,
} from "../../../scripts/local_stack/state_folder.ts";
import { lookUpProcess } from "../../../scripts/common/processes.ts";
import { spawnGroup } from "../../../scripts/common/spawn_group.ts";

async function withParent(
  use: (parent: string) => Promise<void>,
): Promise<void> {
  const parent = await Deno.makeTempDir();
  try {
    await use(parent);
  } finally {
    await Deno.remove(parent, { recursive: true });
  }
}

Deno.test("openStateFolder() leaves a folder alone that is not its own", async () => {
  await withParent(async (parent) => {
    const file = join(parent, "foreign", "database", "file");
    const foreign = join(parent, "foreign");
    await Deno.mkdir(join(foreign, "database"), { recursive: true });
    await Deno.writeTextFile(file, "precious");
    await Deno.chmod(foreign, 0o700);
    const link = join(parent, "link");
    await Deno.symlink(foreign, link);
    const linked = join(parent, "linked");
    await Deno.mkdir(linked);
    await Deno.symlink(file, join(linked, "lock"));
    const cases = [
      [link, "it is a symbolic link"],
      [foreign, "it contains other files"],
      [linked, "its lock is not a file of this account"],
    ];
    if (Deno.uid() === 0) {
      // Empty, or with a lock: it may be taken back at any time.
      const other = join(parent, "other");
      await Deno.mkdir(other);
      await Deno.chown(other, 65_534, 65_534);
      cases.push([other, "another account owns it"]);
    } else cases.push(["/usr", "another account owns it"]);
    for (const [path, reason] of cases) {
      await assertRejects(() => openStateFolder(path!), Error, reason!);
    }
    assertEquals(await Deno.readTextFile(file), "precious");
    assertEquals((await Deno.stat(foreign)).mode! & 0o777, 0o700);
  });
});

Deno.test("openStateFolder() opens its own folder again, for one process at a time, and empties it", async () => {
  await withParent(async (parent) => {
    const path = join(parent, "a", "folder");
    const first = await openStateFolder(path);
    await Deno.mkdir(first.database);
    await assertRejects(
      () => openStateFolder(path),
      Error,
      `a stack already runs on it (process ${Deno.pid})`,
    );
    first.close();
    const again = await openStateFolder(path);
    assert((await Deno.stat(again.database)).isDirectory);
    await emptyStateFolder(again);
    await assertRejects(() => Deno.lstat(path), Deno.errors.NotFound);
  });
});

Deno.test("openStateFolder() ends the processes that were recorded, and no others of the same id", async () => {
  await withParent(async (parent) => {
    const sleep = () =>
      spawnGroup({ command: "sleep", args: ["60"], options: {} });
    const [recorded, other] = [sleep(), sleep()];
    const folder = await openStateFolder(parent);
    await folder.record(recorded.child.pid);
    const lock = join(parent, "lock");
    const earlier = `${other.child.pid} 1\n`;
    await Deno.writeTextFile(lock, earlier, { append: true });
    folder.close();
    (await openStateFolder(parent)).close();
    assertEquals((await recorded.ended).signal, "SIGINT");
    assert(await lookUpProcess(other.child.pid));
    assertEquals(await Deno.readTextFile(lock), `${Deno.pid}\n`);
    other.kill("SIGKILL");
    await other.ended;
  });
});
