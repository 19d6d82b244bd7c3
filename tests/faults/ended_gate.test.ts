/**
 * However the tests end, none of their servers is left, and no folder if the
 * gate can still clean up.
 *
 * @module
 */
import { createCommand } from "../../scripts/common/create_command.ts";
import { assertEquals } from "@std/assert";
import { spawnGuarded } from "../../scripts/common/spawn_guarded.ts";
import { waitUntil } from "../../scripts/common/wait_until.ts";
import { HANG_LIMIT_MS } from "../support/hang_limit.ts";
import {
  leftOf,
  type ProcessTree,
  processTree,
} from "../support/process_tree.ts";
import { setting } from "../support/test_environment.ts";

const GATE = new URL("../../scripts/dev/test.ts", import.meta.url).pathname;
const RECEIVER = import.meta.resolve("../support/receiver.ts");

/** A test file that serves a function and never disposes of it. */
const TEST_FILE = `
  import { startReceiver } from ${JSON.stringify(RECEIVER)};
  await startReceiver();
  // A line on a pipe that this test holds.
  const go = await Deno.open(new URL("go", import.meta.url));
  await go.read(new Uint8Array(1));
  throw new Error("unexpected");
`;

interface Ending {
  readonly name: string;
  /** Makes it end. */
  end(gate: { tree: ProcessTree; go: string }): void | Promise<void>;
  readonly code: number;
  /** Whether it may leave its folder. */
  readonly leavesFolder?: boolean;
}

const ENDINGS: readonly Ending[] = [
  {
    name: "a test file fails",
    end: ({ go }) => Deno.writeTextFile(go, "\n"),
    code: 1,
  },
  {
    name: "deno test is killed",
    end: ({ tree }) => Deno.kill(idOf(tree, / test --allow-all /), "SIGKILL"),
    code: 1,
  },
  {
    name: "the gate is interrupted",
    end: ({ tree }) =>
      Deno.kill(idOf(tree, /scripts\/dev\/test\.ts/), "SIGINT"),
    code: 130,
  },
  {
    name: "the gate is killed",
    end: ({ tree }) =>
      Deno.kill(idOf(tree, /scripts\/dev\/test\.ts/), "SIGKILL"),
    code: 137,
    leavesFolder: true,
  },
];

Deno.test("the gate leaves no process, however it ends", async () => {
  const seen = await Promise.all(ENDINGS.map(seenOf));
  assertEquals(
    seen,
    ENDINGS.map(({ name, code, leavesFolder = false }) => ({
      name,
      code,
      left: [],
      leavesFolder,
    })),
  );
});

/** Starts a gate, lets it end, and looks what is left. */
async function seenOf({ name, end }: Ending) {
  const folder = await Deno.makeTempDir({ prefix: "billing-webhook-gate-" });
  await Deno.chmod(folder, 0o755); // Postgres may run as another account
  const [temporary, go] = [`${folder}/tmp`, `${folder}/go`];
  await Deno.mkdir(temporary);
  await createCommand("mkfifo", { args: [go] }).output();
  await Deno.writeTextFile(`${folder}/serving.test.ts`, TEST_FILE);
  const { child, ended } = spawnGuarded({
    command: Deno.execPath(),
    args: ["run", "-A", "--no-check", GATE, `${folder}/serving.test.ts`],
    stopSignal: "SIGTERM",
    options: {
      env: {
        TMPDIR: temporary,
        GATE_STACK_TEMPLATE: setting("TEST_STACK_TEMPLATE"),
      },
      stdout: "null",
      stderr: "null",
    },
  });
  const tree = await servingTree(child.pid);
  await end({ tree, go });
  const { code } = await ended;
  const left = await leftOf(tree);
  // The Supabase CLI keeps a file of its own there.
  const leavesFolder = Array.from(Deno.readDirSync(temporary))
    .some((entry) => entry.name.startsWith("billing-webhook-"));
  await Deno.remove(folder, { recursive: true });
  return { name, code, left, leavesFolder };
}

/** The tree of a gate, as soon as it serves. */
async function servingTree(id: number): Promise<ProcessTree> {
  let tree: ProcessTree = new Map();
  const isServing = await waitUntil(async () => {
    tree = await processTree(id);
    return [...tree.values()].some(({ command }) => / serve /.test(command));
  }, { timeoutMs: HANG_LIMIT_MS, intervalMs: 250 });
  assertEquals(isServing, true);
  return tree;
}

function idOf(tree: ProcessTree, command: RegExp): number {
  const [found] = [...tree].find(([, entry]) => command.test(entry.command))!;
  return found;
}
