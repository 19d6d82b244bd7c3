import { assertEquals, assertStringIncludes } from "@std/assert";
import { join } from "node:path";
import {
  tryToWatch,
  watchFiles,
} from "../../../scripts/local_stack/watch_files.ts";
import { waitUntil } from "../../../scripts/common/wait_until.ts";
import { HANG_LIMIT_MS } from "../../support/hang_limit.ts";

/** Longer than the pause after which a save is over. */
const QUIET_MS = 400;

async function withFolder(use: (folder: string) => Promise<void>) {
  const folder = await Deno.makeTempDir();
  try {
    await use(folder);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

function quiet() {
  return new Promise((resolve) => setTimeout(resolve, QUIET_MS));
}

Deno.test("watchFiles() calls once for a save of several files, and for a new name and a removal, and for settings", async () => {
  await withFolder(async (folder) => {
    let calls = 0;
    using _watcher = watchFiles(folder, () => Promise.resolve(void calls++));
    await Promise.all(["a.ts", "b.json", "c.sql"].map(
      (name) => Deno.writeTextFile(join(folder, name), "1"),
    ));
    await waitUntil(() => calls > 0, { timeoutMs: HANG_LIMIT_MS });
    await quiet();
    assertEquals(calls, 1);
    await Deno.rename(join(folder, "a.ts"), join(folder, "a2.ts"));
    await waitUntil(() => calls > 1, { timeoutMs: HANG_LIMIT_MS });
    await Deno.remove(join(folder, "a2.ts"));
    await waitUntil(() => calls > 2, { timeoutMs: HANG_LIMIT_MS });
    await Deno.writeTextFile(join(folder, ".env"), "1");
    await waitUntil(() => calls > 3, { timeoutMs: HANG_LIMIT_MS });
    assertEquals(calls, 4);
  });
});

Deno.test("watchFiles() does not look at other files, nor at reading", async () => {
  await withFolder(async (folder) => {
    await Deno.writeTextFile(join(folder, "a.ts"), "1");
    let calls = 0;
    using _watcher = watchFiles(folder, () => Promise.resolve(void calls++));
    for (const name of [".a.ts.swp", "a.ts~", ".env.example", "notes.md"]) {
      await Deno.writeTextFile(join(folder, name), "1");
    }
    await Deno.readTextFile(join(folder, "a.ts"));
    await quiet();
    assertEquals(calls, 0);
  });
});

Deno.test("watchFiles() calls again for a change during a call, never twice at once", async () => {
  await withFolder(async (folder) => {
    let calls = 0;
    let atOnce = 0;
    let most = 0;
    const { promise: goOn, resolve } = Promise.withResolvers<void>();
    using _watcher = watchFiles(folder, async () => {
      calls++;
      most = Math.max(most, ++atOnce);
      await goOn;
      atOnce--;
    });
    await Deno.writeTextFile(join(folder, "a.ts"), "1");
    await waitUntil(() => calls === 1, { timeoutMs: HANG_LIMIT_MS });
    await Deno.writeTextFile(join(folder, "a.ts"), "2");
    await quiet();
    assertEquals(calls, 1);
    resolve();
    await waitUntil(() => calls === 2, { timeoutMs: HANG_LIMIT_MS });
    await quiet();
    assertEquals([calls, most], [2, 1]);
  });
});

Deno.test("tryToWatch() says why the system does not let it watch", () => {
  const faults: string[] = [];
  const missing = join(Deno.cwd(), "no such folder");
  using _watcher = tryToWatch(missing, () => Promise.resolve(), (fault) => {
    faults.push(fault);
  });
  assertEquals(faults.length, 1);
  assertStringIncludes(faults[0] ?? "", "No path was found");
});
