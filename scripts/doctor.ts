/**
 * `deno task doctor`: whether a deployment works, a line for each part of it,
 * and what to do where it does not.
 *
 * @module
 */
import { print, printError } from "./common/print.ts";
import { DOCTOR_USAGE, parseDoctorArguments } from "./doctor/arguments.ts";
import { examine } from "./doctor/examine.ts";
import { findingLine } from "./doctor/finding.ts";
import { functionEnvironment, readEnvFile } from "./common/environment.ts";
import { UsageError } from "./common/checked.ts";

const MIGRATIONS = new URL("../supabase/migrations/", import.meta.url);

if (import.meta.main) Deno.exit(await main(Deno.args));

async function main(args: string[]): Promise<number> {
  try {
    const target = parseDoctorArguments(args, {
      env: Deno.env.toObject(),
      warn: printError,
    });
    if (target === null) {
      console.log(DOCTOR_USAGE);
      return 0;
    }
    const here = {
      env: functionEnvironment(Deno.env.toObject(), await readEnvFile()),
      migrationFiles: [...Deno.readDirSync(MIGRATIONS)]
        .map(({ name }) => name).sort(),
    };
    const tools = { fetch, now: Date.now };
    printError(
      `Checking ${target.url}, project ${target.projectUrl ?? "not named"}`,
    );
    const counts = { ok: 0, red: 0, skipped: 0 };
    for await (const [name, finding] of examine(target, { here, tools })) {
      print(findingLine(name, finding));
      counts[finding.state] += 1;
    }
    print(`${counts.ok} ok, ${counts.red} red, ${counts.skipped} skipped`);
    return counts.red === 0 ? 0 : 1;
  } catch (error) {
    const { message } = error as Error;
    const wrongUsage = error instanceof UsageError;
    printError(message);
    if (wrongUsage) console.error(`\n${DOCTOR_USAGE}`);
    return wrongUsage ? 2 : 1;
  }
}
