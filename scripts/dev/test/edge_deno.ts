import { createCommand } from "../../common/create_command.ts";

/** The version that Supabase's edge runtime is built on. */
export const EDGE_DENO_VERSION = "2.1.4";

/**
 * The path of the Deno that Supabase's edge runtime is built on, fetched from
 * npm where it is not there yet.
 *
 * @throws {Error} Where npm is not there, or cannot fetch it.
 */
export async function edgeDenoPath(): Promise<string> {
  const command = createCommand("npx", {
    args: [
      "-y",
      `deno@${EDGE_DENO_VERSION}`,
      "eval",
      // Its lock file has another form.
      "--no-config",
      "--no-lock",
      "console.log(Deno.execPath())",
    ],
    stdin: "null",
    stderr: "piped",
  });
  try {
    const { success, stdout, stderr } = await command.output();
    if (success) return new TextDecoder().decode(stdout).trim();
    throw new Error(new TextDecoder().decode(stderr).trim());
  } catch (cause) {
    throw new Error(
      `Cannot get Deno ${EDGE_DENO_VERSION}: ${
        (cause as Error).message
      }. The tests need Node.js with npm, and the npm registry.`,
      { cause },
    );
  }
}
