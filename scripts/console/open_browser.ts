import { createCommand } from "../common/create_command.ts";

/** How each system opens a URL in the user's browser. */
const OPENERS: Partial<Record<typeof Deno.build.os, readonly string[]>> = {
  linux: ["xdg-open"],
  darwin: ["open"],
  windows: ["rundll32", "url.dll,FileProtocolHandler"],
};

/**
 * Opens a URL in the user's browser, if there is one; the URL is printed too. If
 * this starts the browser, it does not get the secret key, and Ctrl-C here does
 * not end it.
 */
export function openBrowser(url: string): void {
  const [command, ...args] = OPENERS[Deno.build.os] ?? [];
  if (command === undefined) return;
  const { SUPABASE_SECRET_KEY: _, ...env } = Deno.env.toObject();
  try {
    createCommand(command, {
      args: [...args, url],
      clearEnv: true,
      env,
      detached: true,
      stdin: "null",
      stdout: "null",
      stderr: "null",
    }).spawn().unref();
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
}
