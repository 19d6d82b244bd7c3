import { assertEquals, assertStringIncludes } from "@std/assert";
import { createCommand } from "../../scripts/common/create_command.ts";
import { REPOSITORY } from "../../scripts/common/how_started.ts";
import { publishRunningStack } from "../../scripts/common/running_stack.ts";
import { createDatabase } from "../../scripts/local_stack/databases.ts";
import { migrate, migrationVersions } from "../support/migrate_part.ts";
import { setting } from "../support/test_environment.ts";

Deno.test("deno task types writes nothing from a stack that lacks a migration", async () => {
  const port = Number(new URL(setting("TEST_DATABASE_URL")).port);
  const { url } = await createDatabase(port, { name: "without_the_newest" });
  await migrate(url, { before: migrationVersions().at(-1)! });
  const folder = await Deno.makeTempDir();
  try {
    await using _running = await publishRunningStack(folder, {
      apiUrl: `http://127.0.0.1:${port}`,
      dbUrl: url,
    });
    const { code, stdout, stderr } = await createCommand(Deno.execPath(), {
      args: ["run", "--quiet", "-A", "scripts/dev/generate_types.ts"],
      cwd: REPOSITORY,
      env: { BILLING_STACK_DATA: folder },
    }).output();
    assertEquals([code, new TextDecoder().decode(stdout)], [1, ""]);
    assertStringIncludes(
      new TextDecoder().decode(stderr),
      "is not applied yet: restart deno task start",
    );
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});
