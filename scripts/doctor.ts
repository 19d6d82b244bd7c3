/**
 * `deno task doctor`: checks a deployment, one line per check, and says how to
 * fix what does not work.
 *
 * @module
 */
import { reportEnd } from "./common/cli.ts";
import { functionEnvironment, readEnvFile } from "./common/environment.ts";
import { print, printError } from "./common/print.ts";
import { parseDoctorArguments } from "./doctor/arguments.ts";
import { checkLine } from "./doctor/check.ts";
import { checkDeployment } from "./doctor/check_deployment.ts";

const MIGRATIONS = new URL("../supabase/migrations/", import.meta.url);

if (import.meta.main) Deno.exit(await doctor(Deno.args).catch(reportEnd));

async function doctor(args: readonly string[]): Promise<number> {
  const env = Deno.env.toObject();
  const target = parseDoctorArguments(args, { env, warn: printError });
  const here = {
    env: functionEnvironment(env, await readEnvFile()),
    migrationFiles: [...Deno.readDirSync(MIGRATIONS)]
      .map(({ name }) => name).sort(),
  };
  const tools = { fetch, clock: Date.now };
  printError(
    `Checking ${target.url}, ${
      target.projectUrl === undefined
        ? "without a project"
        : `project ${target.projectUrl}`
    }`,
  );
  const counts = { ok: 0, FAIL: 0, skipped: 0 };
  for await (const [name, check] of checkDeployment(target, { here, tools })) {
    print(checkLine(name, check));
    counts[check.state] += 1;
  }
  print(`${counts.ok} ok, ${counts.FAIL} FAIL, ${counts.skipped} skipped`);
  return counts.FAIL === 0 ? 0 : 1;
}
