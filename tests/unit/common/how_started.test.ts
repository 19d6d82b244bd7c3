import { assertStringIncludes } from "@std/assert";
import { createCommand } from "../../../scripts/common/create_command.ts";
import { REPOSITORY } from "../../../scripts/common/how_started.ts";

/** Returns what `--help` of trigger prints, as `npm_command` was started. */
async function help(npmCommand: string): Promise<string> {
  const { stdout } = await createCommand(Deno.execPath(), {
    args: [
      "run",
      "--quiet",
      "-A",
      "--no-check",
      "scripts/trigger.ts",
      "--help",
    ],
    env: { npm_command: npmCommand },
    cwd: REPOSITORY,
  }).output();
  return new TextDecoder().decode(stdout);
}

Deno.test("commands are named as they are typed: with npx, if Deno came by it", async () => {
  const usage = "trigger <event type> [options]";
  assertStringIncludes(await help(""), `Usage: deno task ${usage}`);
  assertStringIncludes(
    await help("exec"),
    `Usage: npx -y deno@${Deno.version.deno} task ${usage}`,
  );
});
