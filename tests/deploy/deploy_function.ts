import { join } from "node:path";
import { runSupabaseCli } from "../../scripts/common/supabase_cli.ts";
import { CLI_ENVIRONMENT } from "../support/cli_environment.ts";
import { PROJECT_REF } from "./management_answers.ts";
import {
  ACCESS_TOKEN,
  profileOf,
  startManagementApi,
} from "./management_api.ts";
import type { Upload } from "./upload.ts";

/**
 * Deploys a function with the real Supabase CLI, to a stand-in for Supabase's
 * management API on this machine.
 *
 * @returns what the CLI has uploaded
 * @throws {Error} With the CLI's output, if it does not deploy.
 */
export async function deployFunction(name: string): Promise<Upload> {
  await using api = startManagementApi();
  const home = await Deno.makeTempDir({ prefix: "billing-webhook-deploy-" });
  try {
    const profile = join(home, "loopback.yaml");
    await Deno.writeTextFile(profile, profileOf(api));
    await runSupabaseCli([
      "functions",
      "deploy",
      name,
      "--use-api",
      `--remote=${PROJECT_REF}`,
      "--profile",
      profile,
      "--yes",
    ], {
      purpose: `deploy ${name}`,
      home,
      env: { ...CLI_ENVIRONMENT, SUPABASE_ACCESS_TOKEN: ACCESS_TOKEN },
    });
  } finally {
    await Deno.remove(home, { recursive: true });
  }
  const upload = api.uploads.get(name);
  if (upload === undefined || api.faults.length > 0) {
    throw new Error(`Cannot deploy ${name}: ${api.faults.join("\n")}`);
  }
  return upload;
}
