/**
 * `deno task doctor`: checks a deployment, one line per check, and says how to
 * fix what does not work.
 *
 * @module
 */
import { reportEnd } from "./common/cli.ts";
import { functionEnvironment, readEnvFile } from "./common/environment.ts";
import { print, printError } from "./common/print.ts";
import { findRunningStack } from "./common/running_stack.ts";
import type { RequestTools } from "./common/send_request.ts";
import {
  type DoctorArguments,
  parseDoctorArguments,
} from "./doctor/arguments.ts";
import { type CheckContext, checkLine, type Checks } from "./doctor/check.ts";
import { checkDatabase } from "./doctor/check_database.ts";
import { publicNames } from "./doctor/check_migration.ts";
import { checkModes } from "./doctor/check_modes.ts";
import { checkProject } from "./doctor/check_project.ts";
import { checkWebhook } from "./doctor/check_webhook.ts";

const MIGRATIONS = new URL("../supabase/migrations/", import.meta.url);

if (import.meta.main) Deno.exit(await doctor(Deno.args).catch(reportEnd));

async function doctor(args: readonly string[]): Promise<number> {
  const env = Deno.env.toObject();
  const local = await findRunningStack(env);
  const target = parseDoctorArguments(args, { env, warn: printError, local });
  const here = {
    env: functionEnvironment(env, await readEnvFile()),
    publicNames: publicNames(await readMigrations()),
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

async function readMigrations(): Promise<string> {
  const names = Array.from(Deno.readDirSync(MIGRATIONS), ({ name }) => name);
  const texts = names.map((name) =>
    Deno.readTextFile(new URL(name, MIGRATIONS))
  );
  return (await Promise.all(texts)).join("\n");
}

/**
 * Checks a deployment from the outside inwards. It stores nothing. With the
 * secret key the worker does one turn, as it does every minute anyway.
 */
export async function* checkDeployment(
  target: DoctorArguments,
  { here, tools }: { here: CheckContext; tools: RequestTools },
): Checks {
  yield* checkWebhook(target, { env: here.env, tools });
  yield* checkProject(target, tools);
  yield ["live and test", await checkModes(target, tools)];
  yield* checkDatabase(target, { here, tools });
}
