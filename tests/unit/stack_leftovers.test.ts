import { assertEquals } from "@std/assert";
import { createCommand } from "../../scripts/stack/create_command.ts";
import {
  createProcessRecord,
  endLeftovers,
} from "../../scripts/stack/leftovers.ts";
import { lookUpProcess } from "../../scripts/stack/process_table.ts";

/** A recorded process, and the file that records it. */
async function withRecorded(
  use: (file: string, id: number) => Promise<void>,
): Promise<void> {
  const file = await Deno.makeTempFile();
  const child = createCommand("sleep", { args: ["60"] }).spawn();
  try {
    await createProcessRecord(file).set("sleeper", child.pid);
    await use(file, child.pid);
  } finally {
    if (await lookUpProcess(child.pid)) child.kill("SIGKILL");
    await child.status;
    await Deno.remove(file);
  }
}

Deno.test("endLeftovers() ends what was recorded, and says so", async () => {
  await withRecorded(async (file, id) => {
    const told: string[] = [];
    await endLeftovers(file, { onProgress: (text) => told.push(text) });
    assertEquals(await lookUpProcess(id), undefined);
    assertEquals(told, [`Ending sleeper of an earlier stack (process ${id})`]);
  });
});

Deno.test("endLeftovers() leaves a process alone that has only got the id", async () => {
  for (const changed of [{ started: "1" }, { command: "sleep 61" }]) {
    await withRecorded(async (file, id) => {
      const { sleeper } = JSON.parse(await Deno.readTextFile(file));
      await Deno.writeTextFile(
        file,
        JSON.stringify({ sleeper: { ...sleeper, ...changed } }),
      );
      await endLeftovers(file);
      assertEquals(await lookUpProcess(id) !== undefined, true);
    });
  }
});

Deno.test("endLeftovers() takes a missing or broken record for none", async () => {
  await endLeftovers("/no/such/file");
  const file = await Deno.makeTempFile();
  await Deno.writeTextFile(file, '{"sleeper":');
  await endLeftovers(file);
  await Deno.remove(file);
});
