import { createCommand } from "../../../scripts/common/create_command.ts";
import { assertEquals } from "@std/assert";
import {
  childrenOf,
  lookUpProcess,
} from "../../../scripts/common/processes.ts";
import { spawnGuarded } from "../../../scripts/common/spawn_guarded.ts";
import { waitUntil } from "../../../scripts/common/wait_until.ts";
import { HANG_LIMIT_MS } from "../../support/hang_limit.ts";
import { leftOf, processTree } from "../../support/process_tree.ts";

const MODULE = import.meta.resolve("../../../scripts/common/spawn_guarded.ts");

/** Starts a process that starts a shell, which waits for `sleep`. */
function starterOf({ then }: { then: string }) {
  const script = `
    import { spawnGuarded } from ${JSON.stringify(MODULE)};
    spawnGuarded({
      command: "sh",
      args: ["-c", "sleep 60; true"],
      stopSignal: "SIGTERM",
      options: {},
    });
    ${then}`;
  return createCommand(Deno.execPath(), {
    args: ["eval", script],
    stdin: "piped",
    stdout: "null",
    stderr: "null",
  }).spawn();
}

/** Waits for the processes below a starter: a guard, a shell and its `sleep`. */
async function startedBy(starter: Deno.ChildProcess) {
  let tree = await processTree(starter.pid);
  await waitUntil(async () => {
    tree = await processTree(starter.pid);
    return [...tree.values()].some(({ command }) => command === "sleep 60") &&
      tree.size === 4;
  }, { timeoutMs: HANG_LIMIT_MS });
  assertEquals(tree.size, 4);
  return tree;
}

for (const signal of ["SIGKILL", "SIGTERM", "SIGINT", "SIGHUP"] as const) {
  Deno.test(`spawnGuarded() leaves nothing when the starter ends by ${signal}`, async () => {
    const starter = starterOf({ then: "setInterval(() => {}, 1000);" });
    const tree = await startedBy(starter);
    starter.kill(signal);
    await starter.status;
    assertEquals(await leftOf(tree), []);
    await starter.stdin.close();
  });
}

for (const then of ["Deno.exit(3);", "throw new Error('unexpected');"]) {
  Deno.test(`spawnGuarded() leaves nothing when the starter ends by ${then}`, async () => {
    const starter = starterOf({
      then: `await Deno.stdin.read(new Uint8Array(1)); ${then}`,
    });
    const tree = await startedBy(starter);
    await starter.stdin.close();
    await starter.status;
    assertEquals(await leftOf(tree), []);
  });
}

Deno.test("spawnGuarded() starts nothing if the starter is killed before the guard runs", async () => {
  const script = `
    import { spawnGuarded } from ${JSON.stringify(MODULE)};
    const { Command } = Deno;
    let commands = 0;
    Deno.Command = class extends Command {
      constructor(...given) {
        if (++commands === 2) Deno.kill(Deno.pid, "SIGKILL");
        super(...given);
      }
    };
    spawnGuarded({
      command: "echo",
      args: ["started"],
      stopSignal: "SIGTERM",
      options: {},
    });`;
  const starter = createCommand(Deno.execPath(), {
    args: ["eval", script],
    stdout: "piped",
  }).spawn();
  // Any process that it started has the same pipe open.
  assertEquals(await new Response(starter.stdout).text(), "");
  assertEquals((await starter.status).signal, "SIGKILL");
});

Deno.test("spawnGuarded() reports how the program ended, and ends its guard", async () => {
  for (
    const [script, code, signal] of [
      ["exit 3", 3, null],
      ["kill -TERM $$", 143, "SIGTERM"],
    ] as const
  ) {
    const { ended } = spawnGuarded({
      command: "sh",
      args: ["-c", script],
      stopSignal: "SIGTERM",
      options: {},
    });
    const status = await ended;
    assertEquals([status.code, status.signal], [code, signal]);
    assertEquals(await childrenOf(Deno.pid), []);
  }
});

Deno.test("spawnGuarded() gives the program its arguments, environment and no input", async () => {
  const { child, ended } = spawnGuarded({
    command: "sh",
    args: ["-c", 'echo "$1 $NAME"; cat', "sh", 'an argument\'s "$HOME"'],
    stopSignal: "SIGTERM",
    options: { env: { NAME: "value" }, stdout: "piped" },
  });
  const said = await new Response(child.stdout).text();
  assertEquals(said, 'an argument\'s "$HOME" value\n');
  assertEquals((await ended).code, 0);
  assertEquals(await lookUpProcess(child.pid), undefined);
});

Deno.test("spawnGuarded() ends what the program has left behind, and does nothing once all is gone", async () => {
  const { child, ended, kill } = spawnGuarded({
    command: "sh",
    args: ["-c", "sleep 60 & echo $!; exit 3"],
    stopSignal: "SIGTERM",
    options: { stdout: "piped" },
  });
  assertEquals((await ended).code, 3);
  const said = child.stdout.values();
  const { value } = await said.next();
  const tree = await processTree(Number(new TextDecoder().decode(value)));
  assertEquals(tree.size, 1);
  kill("SIGTERM");
  assertEquals(await leftOf(tree), []);
  kill("SIGTERM");
  await said.return?.();
});
