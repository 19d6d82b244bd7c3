/**
 * `deno task doctor`: whether a deployment works, a line for each part of it,
 * and what to do where it does not.
 *
 * @module
 */
import { DOCTOR_USAGE, parseDoctorArguments } from "./doctor/arguments.ts";
import { examine } from "./doctor/examine.ts";
import { findingLine } from "./doctor/finding.ts";
import { functionEnvironment, readEnvFile } from "./stack/environment.ts";
import { UsageError } from "./trigger/checked.ts";

const MIGRATIONS = new URL("../supabase/migrations/", import.meta.url);

if (import.meta.main) Deno.exit(await main(Deno.args));

async function main(args: string[]): Promise<number> {
  try {
    const target = parseDoctorArguments(args);
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
    const counts = { ok: 0, red: 0, skipped: 0 };
    for await (const [name, finding] of examine(target, { here, tools })) {
      console.log(findingLine(name, finding));
      counts[finding.state] += 1;
    }
    console.log(
      `${counts.ok} ok, ${counts.red} red, ${counts.skipped} skipped`,
    );
    return counts.red === 0 ? 0 : 1;
  } catch (error) {
    const { message } = error as Error;
    const wrongUsage = error instanceof UsageError;
    console.error(wrongUsage ? `${message}\n\n${DOCTOR_USAGE}` : message);
    return wrongUsage ? 2 : 1;
  }
}
