/**
 * `deno task check:cli`: whether npm's latest Supabase CLI is of a later major
 * version than the one that the project uses and its pages name. It is not part
 * of the gate, which must not fail because somebody else makes a release.
 *
 * @module
 */
import { createCommand } from "../common/create_command.ts";
import { SUPABASE_CLI_VERSION } from "../common/supabase_cli.ts";

if (import.meta.main) {
  try {
    const { text, isBehind } = compareVersions({
      pinned: SUPABASE_CLI_VERSION,
      latest: await latestVersion(),
    });
    console.log(text);
    Deno.exit(isBehind ? 1 : 0);
  } catch (error) {
    console.error((error as Error).message);
    Deno.exit(1);
  }
}

/** Returns what to print, and whether the pinned major version is not the latest. */
export function compareVersions(
  { pinned, latest }: { pinned: string; latest: string },
): { text: string; isBehind: boolean } {
  const isBehind = majorOf(latest) > majorOf(pinned);
  return {
    isBehind,
    text: isBehind
      ? `Supabase CLI ${latest} is out, and this project names ${pinned}. Read its release notes, try the commands of the pages with it, and change the version in import_map.json.`
      : `Supabase CLI ${pinned} has the major version of npm's latest, ${latest}.`,
  };
}

function majorOf(version: string): number {
  const major = Number(/^(\d+)\.\d+\.\d+/.exec(version)?.[1]);
  if (Number.isInteger(major)) return major;
  throw new Error(`Cannot compare versions: "${version}" is none.`);
}

async function latestVersion(): Promise<string> {
  const { success, stdout, stderr } = await createCommand("npm", {
    args: ["view", "supabase@latest", "version"],
    stdin: "null",
  }).output();
  const decoder = new TextDecoder();
  if (success) return decoder.decode(stdout).trim();
  throw new Error(
    `Cannot ask npm for the latest Supabase CLI:\n${
      decoder.decode(stderr).trim()
    }`,
  );
}
