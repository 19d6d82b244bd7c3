/**
 * The list of what docs/stability.md promises. The tests know what this version
 * does; a release adds what is new to the list.
 *
 * @module
 */
import { join } from "node:path";
import { createCommand } from "../../common/create_command.ts";
import { REPOSITORY } from "../../common/how_started.ts";
import { readReleased, type Released } from "./released.ts";

/** The list. */
export const PROMISES = "tests/released/interface.json";

/**
 * Runs the tests of the promises, which print what is broken.
 *
 * @returns The list with what a version promises. Undefined if it breaks a
 * promise, or if a test failed otherwise.
 */
export async function promisesWith(
  version: string,
): Promise<Released | undefined> {
  const folder = await Deno.makeTempDir({ prefix: "billing-webhook-release-" });
  try {
    const list = join(folder, "interface.json");
    await Deno.copyFile(join(REPOSITORY, PROMISES), list);
    const { success } = await createCommand(Deno.execPath(), {
      args: ["task", "test", "tests/released/interface.test.ts"],
      cwd: REPOSITORY,
      env: { RELEASE_VERSION: version, RELEASE_LIST: list },
      stdout: "inherit",
      stderr: "inherit",
    }).output();
    return success ? await readReleased(list) : undefined;
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}
