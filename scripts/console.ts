/**
 * `deno task console`: a page on this machine that shows what is failing, and
 * repairs, retries and resolves it.
 *
 * @module
 */
import { aborted, abortOnEnd } from "./common/abort_on_end.ts";
import { reportEnd } from "./common/cli.ts";
import { print } from "./common/print.ts";
import { findRunningStack } from "./common/running_stack.ts";
import { parseConsoleArguments } from "./console/arguments.ts";
import { openBrowser } from "./console/open_browser.ts";
import { serveConsole } from "./console/serve.ts";

if (import.meta.main) Deno.exit(await main(Deno.args).catch(reportEnd));

async function main(args: readonly string[]): Promise<number> {
  const env = Deno.env.toObject();
  const { port, opensBrowser, ...access } = parseConsoleArguments(args, {
    env,
    local: await findRunningStack(env),
  });
  const ending = new AbortController();
  await abortOnEnd(ending, env);
  await using running = await serveConsole(access, { port });
  print(
    `Console of ${access.projectUrl}: open this link, which works once`,
    `  ${running.link}`,
    "Stop with Ctrl-C",
  );
  if (opensBrowser && Deno.stdout.isTerminal()) openBrowser(running.link);
  await aborted(ending.signal);
  return 0;
}
