/**
 * The tasks of deno.json.
 *
 * @module
 */
import { assert } from "@std/assert";

const { tasks } = JSON.parse(
  Deno.readTextFileSync(new URL("../../../deno.json", import.meta.url)),
) as { tasks: Record<string, { command: string }> };

Deno.test("no progress bar of Deno erases what a command prints", () => {
  // At a terminal, `deno run` draws it at each start until its cache is full,
  // and removes it late, together with lines that were printed meanwhile.
  const commands = Object.values(tasks).map(({ command }) => command)
    .filter((command) => / scripts\/\w+\.ts$/.test(command));
  assert(commands.length >= 9, commands.join("\n"));
  for (const command of commands) {
    assert(/deno run --quiet /.test(command), command);
  }
});
