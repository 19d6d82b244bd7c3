import { assert, assertEquals, assertRejects } from "@std/assert";
import { join } from "node:path";
import {
  emptyStateFolder,
  openStateFolder,
} from "../../../scripts/local_stack/state_folder.ts";

/** Creates a folder that is not a stack's, with a folder named like one of its. */
async function foreignFolder(parent: string): Promise<string> {
  const path = join(parent, "foreign");
  await Deno.mkdir(join(path, "database"), { recursive: true });
  await Deno.writeTextFile(join(path, "database", "file"), "precious");
  await Deno.chmod(path, 0o700);
  return path;
}

async function assertUntouched(path: string): Promise<void> {
  assertEquals((await Deno.stat(path)).mode! & 0o777, 0o700);
  assertEquals(Array.from(Deno.readDirSync(path), ({ name }) => name), [
    "database",
  ]);
  const text = await Deno.readTextFile(join(path, "database", "file"));
  assertEquals(text, "precious");
}

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

function refused(path: string, reason: string): Promise<Error> {
  return assertRejects(() => openStateFolder(path), Error, reason);
}

Deno.test("openStateFolder() follows no symbolic link", async () => {
  await withParent(async (parent) => {
    const foreign = await foreignFolder(parent);
    const link = join(parent, "link");
    await Deno.symlink(foreign, link);
    await refused(link, "it is a symbolic link");
    await assertUntouched(foreign);

    await Deno.remove(link);
    await Deno.symlink(join(parent, "nowhere"), link);
    await assertRejects(() => openStateFolder(link));
  });
});

Deno.test("openStateFolder() leaves a folder with other files alone", async () => {
  await withParent(async (parent) => {
    const foreign = await foreignFolder(parent);
    await refused(foreign, "it contains other files");
    await assertUntouched(foreign);
  });
});

Deno.test("openStateFolder() leaves another account's folder alone", async () => {
  if (Deno.uid() !== 0) {
    await refused("/usr", "another account owns it");
    return;
  }
  await withParent(async (parent) => {
    const foreign = await foreignFolder(parent);
    await Deno.chown(foreign, 65_534, 65_534);
    await refused(foreign, "another account owns it");
    await assertUntouched(foreign);

    // Empty, or with a lock: it may be taken back at any time.
    const empty = join(parent, "empty");
    await Deno.mkdir(empty);
    await Deno.chown(empty, 65_534, 65_534);
    await refused(empty, "another account owns it");
  });
});

Deno.test("openStateFolder() accepts no link as the lock", async () => {
  await withParent(async (parent) => {
    const target = join(parent, "target");
    await Deno.writeTextFile(target, "precious");
    const path = join(parent, "folder");
    await Deno.mkdir(path);
    await Deno.symlink(target, join(path, "lock"));
    await refused(path, "its lock is not a file of this account");
    assertEquals(await Deno.readTextFile(target), "precious");
  });
});

Deno.test("openStateFolder() opens its own folder again, for one process at a time, and empties it", async () => {
  await withParent(async (parent) => {
    const path = join(parent, "a", "folder");
    const first = await openStateFolder(path);
    await Deno.mkdir(first.database);
    await refused(path, "a stack already runs on it");
    first.close();
    const again = await openStateFolder(path);
    assert((await Deno.stat(again.database)).isDirectory);
    await emptyStateFolder(again);
    await assertRejects(() => Deno.lstat(path), Deno.errors.NotFound);
  });
});
