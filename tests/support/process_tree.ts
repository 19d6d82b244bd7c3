import {
  lookUpProcess,
  type ProcessEntry,
  runningProcesses,
} from "../../scripts/common/processes.ts";
import { waitUntil } from "../../scripts/local_stack/wait_until.ts";
import { HANG_LIMIT_MS } from "./hang_limit.ts";

/** A process and its descendants at one moment. */
type ProcessTree = ReadonlyMap<number, ProcessEntry>;

/** Returns a process and its descendants. */
export async function processTree(root: number): Promise<ProcessTree> {
  const running = await runningProcesses();
  const byParent = Map.groupBy(running, ([, { parent }]) => parent);
  const tree = new Map<number, ProcessEntry>();
  const waiting = [...running].filter(([id]) => id === root);
  for (let next = waiting.pop(); next; next = waiting.pop()) {
    const [id, entry] = next;
    tree.set(id, entry);
    waiting.push(...byParent.get(id) ?? []);
  }
  return tree;
}

/** Returns the commands of those that still run after a while. */
export async function leftOf(tree: ProcessTree): Promise<string[]> {
  let left: string[] = [];
  await waitUntil(async () => {
    left = [];
    for (const [id, { started, command }] of tree) {
      if ((await lookUpProcess(id))?.started === started) left.push(command);
    }
    return left.length === 0;
  }, { timeoutMs: HANG_LIMIT_MS });
  return left;
}
