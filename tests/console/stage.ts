import type { Browser } from "puppeteer-core";
import { localKeys } from "../../scripts/common/keys.ts";
import {
  type RunningConsole,
  serveConsole,
} from "../../scripts/console/serve.ts";
import { startNotifiedEndpoint } from "../support/notified_endpoint.ts";
import { type OwnStack, startOwnStack } from "../support/own_stack.ts";
import { startBrowser } from "./browser.ts";

/** A stack of its own with both functions, and a browser. */
export interface Stage extends OwnStack {
  readonly browser: Browser;
  /** Starts a console of the stack, which one browser may enter. */
  startConsole(): Promise<RunningConsole>;
}

/** Opens the stage. The browser is first: it may be what cannot start. */
export async function openStage(): Promise<Stage> {
  await using opened = new AsyncDisposableStack();
  const endpoint = opened.use(startNotifiedEndpoint());
  const browser = await startBrowser({
    usesOwnFonts: !Deno.env.get("SCREENSHOT"),
  });
  opened.defer(() => browser.close());
  const own = opened.use(await startOwnStack({ env: endpoint.env }));
  const { secret } = await localKeys();
  const owned = opened.move();
  return {
    ...own,
    browser,
    startConsole: () =>
      serveConsole(
        { projectUrl: own.stack.urls.api, secretKey: secret },
        { port: 0 },
      ),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}
