/**
 * `deno task check:cli`: whether npm's latest Supabase CLI is of a later major
 * version than the one that the project uses and its pages name. It is not part
 * of the gate, which must not fail because somebody else makes a release.
 *
 * @module
 */
import { toolEnvironment } from "../common/create_command.ts";
import { runTool } from "../common/run_tool.ts";
import { REPOSITORY } from "../common/how_started.ts";
import { SUPABASE_CLI_VERSION } from "../common/supabase_cli.ts";

const latest = (await runTool({
  purpose: "ask npm for the latest Supabase CLI",
  command: "npm",
  args: ["view", "supabase@latest", "version"],
  env: toolEnvironment(),
  cwd: REPOSITORY,
})).trim();
const isBehind = parseInt(latest) > parseInt(SUPABASE_CLI_VERSION);
console.log(
  isBehind
    ? `Supabase CLI ${latest} is out, and this project names ${SUPABASE_CLI_VERSION}. Read its release notes, try the commands of the pages with it, and change the version in import_map.json.`
    : `Supabase CLI ${SUPABASE_CLI_VERSION} has the major version of npm's latest, ${latest}.`,
);
Deno.exit(isBehind ? 1 : 0);
