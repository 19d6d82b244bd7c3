import { functionEnvironment } from "../scripts/common/environment.ts";
import type { Stack } from "../scripts/local_stack/stack.ts";
import { startStack } from "../scripts/local_stack/stack.ts";

/**
 * Runs against a stack of its own, on free ports, with fsync on, and removes
 * its data afterwards.
 */
export async function withStack<T>(
  use: (stack: Stack, folder: string) => Promise<T>,
): Promise<T> {
  // /tmp may be memory, and the server's user must get there.
  const folder = await Deno.makeTempDir({ dir: "/var/tmp", prefix: "bench-" });
  await Deno.chmod(folder, 0o755);
  try {
    await using stack = await startStack({
      dataDir: `${folder}/stack`,
      env: functionEnvironment({}),
    });
    return await use(stack, folder);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}
