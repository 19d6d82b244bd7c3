/** Copies the programs of Postgres and runs one, for another account. */
import { assertEquals, assertRejects } from "@std/assert";
import { join } from "node:path";
import { initializeDatabase } from "../../../scripts/local_stack/initialize_database.ts";
import { databaseUser } from "../../../scripts/local_stack/postgres.ts";
import { copyProgram } from "../../../scripts/local_stack/postgres_binaries.ts";

/** Gives a folder, in which everything new is closed to other accounts. */
async function withClosedFolder(use: (folder: string) => Promise<void>) {
  const folder = await Deno.makeTempDir();
  await Deno.chmod(folder, 0o755);
  const before = Deno.umask(0o077);
  try {
    await use(folder);
  } finally {
    Deno.umask(before);
    await Deno.remove(folder, { recursive: true });
  }
}

async function writeProgram(folder: string, script: string) {
  await Deno.mkdir(join(folder, "bin"), { recursive: true });
  await Deno.writeTextFile(
    join(folder, "bin", "initdb"),
    `#!/bin/sh\n${script}\n`,
    { mode: 0o700 },
  );
}

Deno.test("copyProgram() makes a copy that every account can read and run", async () => {
  await withClosedFolder(async (folder) => {
    const source = join(folder, "source");
    await writeProgram(source, "exit 0");
    await Deno.mkdir(join(source, "share"));
    await Deno.writeTextFile(join(source, "share", "list"), "");
    await Deno.writeTextFile(join(source, "share", "unused.a"), "");
    await Deno.symlink("list", join(source, "share", "link"));

    const target = join(folder, "binaries", "postgres-17");
    await copyProgram(source, target);
    const modes = {
      "..": 0o755,
      ".": 0o755,
      bin: 0o755,
      "bin/initdb": 0o755,
      share: 0o755,
      "share/list": 0o644,
    };
    for (const [path, mode] of Object.entries(modes)) {
      const found = (await Deno.stat(join(target, path))).mode! & 0o777;
      assertEquals(found, mode, path);
    }
    assertEquals(await Deno.readLink(join(target, "share", "link")), "list");
    const names = Array.from(
      Deno.readDirSync(join(target, "share")),
      ({ name }) => name,
    );
    assertEquals(names.sort(), ["link", "list"]);
  });
});

Deno.test("initializeDatabase() gives its account the password, and keeps it nowhere", async () => {
  await withClosedFolder(async (folder) => {
    const source = join(folder, "source");
    await writeProgram(
      source,
      'for arg; do case $arg in --pwfile=*) echo "read: $(cat "${arg#*=}")";; esac; done; exit 1',
    );
    const binaries = join(folder, "binaries", "postgres-17");
    await copyProgram(source, binaries);
    const data = join(folder, "database");
    await assertRejects(
      async () =>
        initializeDatabase({ binaries, data, user: await databaseUser() }),
      Error,
      "Cannot create the database: the command ended with code 1.\nread: postgres",
    );
    const names = Array.from(Deno.readDirSync(folder), ({ name }) => name);
    assertEquals(names.includes("database.password"), false, names.join(" "));
  });
});
