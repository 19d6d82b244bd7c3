import { assertEquals } from "@std/assert";
import { spawnGroup } from "../../../scripts/common/spawn_group.ts";
import { leftOf, processTree } from "../../support/machine.ts";

Deno.test("spawnGroup() gives the program its arguments, environment and no input", async () => {
  const { child, ended } = spawnGroup({
    command: "sh",
    args: [
      "-c",
      'echo "$1 $NAME"; cat; exit 3',
      "sh",
      'an argument\'s "$HOME"',
    ],
    options: { env: { NAME: "value" }, stdout: "piped" },
  });
  const said = await new Response(child.stdout).text();
  assertEquals(said, 'an argument\'s "$HOME" value\n');
  assertEquals((await ended).code, 3);
});

Deno.test("spawnGroup() ends what the program has left behind, and does nothing once all is gone", async () => {
  const { child, ended, kill } = spawnGroup({
    command: "sh",
    args: ["-c", "sleep 60 & echo $!"],
    options: { stdout: "piped" },
  });
  assertEquals((await ended).code, 0);
  const said = child.stdout.values();
  const { value } = await said.next();
  const tree = await processTree(Number(new TextDecoder().decode(value)));
  assertEquals(tree.size, 1);
  kill("SIGTERM");
  assertEquals(await leftOf(tree), []);
  kill("SIGTERM");
  await said.return?.();
});
