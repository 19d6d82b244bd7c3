/**
 * A user who deploys: a terminal whose CLI, not used before, reaches a hosted
 * project on this machine.
 *
 * @module
 */
import { localKeys } from "../../scripts/local_stack/keys.ts";
import { copyRepository } from "../support/copy_repository.ts";
import * as support from "../support/terminal.ts";
import type { HostedProject } from "./hosted_project.ts";
import { PROJECT_REF } from "./management_api.ts";

export type { Typed } from "../support/terminal.ts";

/** The endpoint's signing secret at the provider. */
export const SIGNING_SECRET = "whsec_deployed_0123456789";

/** A project's folder, and a terminal in it. */
export type ProjectTerminal = Pick<
  support.Terminal,
  "path" | "type" | typeof Symbol.asyncDispose
>;

/**
 * Opens a terminal in a new clone.
 *
 * @param options.localPort where the clone's config.toml has the local database
 */
export async function startDeployer(
  project: HostedProject,
  { localPort }: { localPort: number },
): Promise<ProjectTerminal> {
  await using opened = new AsyncDisposableStack();
  const { path } = opened.use(await copyRepository());
  await setLocalPort(path, localPort);
  const { type } = opened.use(await openTerminal(project, path));
  const owned = opened.move();
  return { path, type, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

/** Sets where a project's config.toml has the local database. */
export async function setLocalPort(
  folder: string,
  port: number,
): Promise<void> {
  const config = `${folder}/supabase/config.toml`;
  const text = await Deno.readTextFile(config);
  const changed = text.replace("port = 54322", `port = ${port}`);
  if (changed === text) throw new Error(`${config} has no local database`);
  await Deno.writeTextFile(config, changed);
}

/** Opens a terminal in a folder. */
export async function openTerminal(
  project: HostedProject,
  folder: string,
): Promise<support.Terminal> {
  const { secret } = await localKeys();
  const terminal = await support.openTerminal(folder, {
    "https://<project-ref>.supabase.co": project.url,
    "<project-ref>": PROJECT_REF,
    "<region>": "eu-central-1",
    "postgresql://...": project.databaseUrl,
    "sb_secret_...": secret,
    "whsec_...": SIGNING_SECRET,
    "whsec_<live>": "whsec_live_0123456789",
    "whsec_<test>": SIGNING_SECRET,
  });
  const profile = `${terminal.home}/loopback.yaml`;
  // Names under .invalid never resolve, so that the CLI does not find anything
  // else by the project's own names.
  const { url } = project.api;
  await Deno.writeTextFile(
    profile,
    `name: loopback
api_url: ${url}
dashboard_url: ${url}
docs_url: ${url}
project_host: loopback.invalid
`,
  );
  Object.assign(terminal.env, {
    SUPABASE_PROFILE: profile,
    SUPABASE_NO_KEYRING: "1",
    SUPABASE_TELEMETRY_DISABLED: "1",
    SUPABASE_NO_UPDATE_NOTIFIER: "1",
  });
  return terminal;
}
