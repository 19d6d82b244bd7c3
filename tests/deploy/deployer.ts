/**
 * A user who deploys: a folder, a terminal in it, and an unused CLI.
 *
 * @module
 */
import type { Environment } from "../../scripts/common/environment.ts";
import {
  createCommand,
  toolEnvironment,
} from "../../scripts/common/create_command.ts";
import { localKeys } from "../../scripts/common/keys.ts";
import { makeTools } from "../support/make_tools.ts";
import { copyRepository } from "../support/copy_repository.ts";
import type { HostedProject } from "./hosted_project.ts";
import { PROJECT_REF } from "./management_answers.ts";
import { profileOf } from "./management_api.ts";

/** The endpoint's signing secret at the provider. */
export const SIGNING_SECRET = "whsec_deployed_0123456789";

/** What a command came to. */
export interface Typed {
  readonly code: number;
  readonly said: string;
}

/** A terminal whose commands reach the stand-ins. */
export interface Terminal extends AsyncDisposable {
  /**
   * Types a block of commands, as it stands but for what the reader has to
   * fill in.
   *
   * @param options.env On top of the terminal's own.
   * @param options.input What is piped into it.
   */
  type(
    block: string,
    options?: { env?: Environment; input?: string },
  ): Promise<Typed>;
}

/** A project's folder, and a terminal in it. */
export interface ProjectTerminal extends Terminal {
  readonly path: string;
}

/**
 * Opens a terminal in a new clone.
 *
 * @param options.localPort Where the clone's config.toml has the local
 * database.
 */
export async function startDeployer(
  project: HostedProject,
  { localPort }: { localPort: number },
): Promise<ProjectTerminal> {
  await using opened = new AsyncDisposableStack();
  const clone = opened.use(await copyRepository());
  await setLocalPort(clone.path, localPort);
  const terminal = opened.use(await openTerminal(project, clone.path));
  const owned = opened.move();
  return {
    path: clone.path,
    type: terminal.type,
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
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

/** Opens a terminal in a folder, with a CLI that was not used before. */
export async function openTerminal(
  project: HostedProject,
  folder: string,
): Promise<Terminal> {
  await using opened = new AsyncDisposableStack();
  const home = await Deno.makeTempDir({ prefix: "billing-webhook-home-" });
  opened.defer(() => Deno.remove(home, { recursive: true }));
  await makeTools(home);
  const profile = `${home}/loopback.yaml`;
  await Deno.writeTextFile(profile, profileOf(project.api));

  const terminal = {
    ...toolEnvironment(),
    PATH: `${home}:${toolEnvironment()["PATH"]}`,
    NO_COLOR: "1",
    SUPABASE_HOME: `${home}/.supabase`,
    SUPABASE_PROFILE: profile,
    SUPABASE_NO_KEYRING: "1",
    SUPABASE_TELEMETRY_DISABLED: "1",
    SUPABASE_NO_UPDATE_NOTIFIER: "1",
  };
  const { secret } = await localKeys();
  const filledIn = [
    ["https://<project-ref>.supabase.co", project.url],
    ["<project-ref>", PROJECT_REF],
    ["<region>", "eu-central-1"],
    ["postgresql://...", project.databaseUrl],
    ["sb_secret_...", secret],
    ["whsec_...", SIGNING_SECRET],
    ["whsec_<live>", "whsec_live_0123456789"],
    ["whsec_<test>", SIGNING_SECRET],
  ] as const;

  const owned = opened.move();
  return {
    type: async (block, { env = {}, input = "" } = {}) => {
      let command = block;
      for (const [name, value] of filledIn) {
        command = command.replaceAll(name, value);
      }
      const child = createCommand("bash", {
        args: ["-ec", command],
        cwd: folder,
        env: { ...terminal, ...env },
        clearEnv: true,
        stdin: "piped",
        stdout: "piped",
        stderr: "piped",
      }).spawn();
      const writer = child.stdin.getWriter();
      // A command that reads nothing may have ended by now.
      await writer.write(new TextEncoder().encode(input)).catch(() => {});
      await writer.close().catch(() => {});
      const { code, stdout, stderr } = await child.output();
      const decoder = new TextDecoder();
      return { code, said: decoder.decode(stdout) + decoder.decode(stderr) };
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}
