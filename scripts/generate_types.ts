/**
 * `deno task types`: writes the functions' types of the database anew, from
 * the running local stack, or from `--db-url`.
 *
 * @module
 */
import { parseArgs } from "node:util";
import { createCommand } from "./stack/create_command.ts";
import { databaseUrls } from "./stack/databases.ts";
import { toolEnvironment } from "./stack/tool_environment.ts";

/** The file that is written. */
export const TYPES_FILE = new URL(
  "../supabase/functions/_shared/database.types.ts",
  import.meta.url,
);

/** One that makes types without Docker, unlike the one that migrates. */
export const TYPES_CLI = "supabase@3.1.0";

const STANDARD_DB_PORT = 54322;

if (import.meta.main) {
  try {
    const { values } = parseArgs({
      args: Deno.args,
      options: { "db-url": { type: "string" } },
    });
    const url = values["db-url"] ?? databaseUrls(STANDARD_DB_PORT).url;
    await Deno.writeTextFile(TYPES_FILE, await generateTypes(url));
    console.log(`Wrote ${TYPES_FILE.pathname}`);
  } catch (error) {
    console.error((error as Error).message);
    Deno.exit(1);
  }
}

/**
 * Makes the types of a database's schema public with the Supabase CLI, from
 * npm, and formats them.
 *
 * @param databaseUrl With user and password. On this machine it is reached
 * without TLS, which the local Postgres has not.
 * @throws {Error} Where Node is missing or the database does not answer.
 */
export async function generateTypes(databaseUrl: string): Promise<string> {
  const made = await output({
    command: "npx",
    args: [
      "-y",
      TYPES_CLI,
      "gen",
      "types",
      "typescript",
      "--schema",
      "public",
      "--db-url",
      withoutLocalTls(databaseUrl),
    ],
  });
  return await formatted(made);
}

// In a file: text on standard input is formatted once, a file until it stays.
async function formatted(text: string): Promise<string> {
  const file = await Deno.makeTempFile({ suffix: ".ts" });
  try {
    await Deno.writeTextFile(file, text);
    await output({
      command: Deno.execPath(),
      args: ["fmt", "--no-config", "--quiet", file],
    });
    return await Deno.readTextFile(file);
  } finally {
    await Deno.remove(file);
  }
}

function withoutLocalTls(databaseUrl: string): string {
  const url = new URL(databaseUrl);
  const isLocal = /^(localhost|127\.|\[::1\])/.test(url.hostname);
  if (isLocal) url.searchParams.set("sslmode", "disable");
  return url.href;
}

async function output(
  { command, args }: { command: string; args: string[] },
): Promise<string> {
  try {
    const { success, stdout, stderr } = await createCommand(command, {
      args,
      env: {
        ...toolEnvironment(),
        SUPABASE_TELEMETRY_DISABLED: "1",
        SUPABASE_NO_UPDATE_NOTIFIER: "1",
        DO_NOT_TRACK: "1",
      },
      clearEnv: true,
      stdin: "null",
    }).output();
    const decoder = new TextDecoder();
    if (success) return decoder.decode(stdout);
    throw new Error(decoder.decode(stderr).trim());
  } catch (cause) {
    throw new Error(
      `Cannot make the types of the database: ${
        (cause as Error).message
      }\nThis needs Node.js with npm, and a database that runs: deno task start`,
      { cause },
    );
  }
}
