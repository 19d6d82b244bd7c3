import { type Context, Hono } from "hono";
import { bodyLimit } from "hono/body-limit";
import { guard } from "./guard.ts";
import { addHeaders } from "./headers.ts";
import type { Html } from "./html.ts";
import { layout } from "./pages/layout.ts";
import { refusedPage } from "./pages/refused.ts";
import { missingPage, troublePage } from "./pages/message.ts";
import { ProjectError } from "./refusal.ts";
import type { ConsoleOptions } from "./routes.ts";
import type { Notice } from "./session.ts";
import { addFailureRoutes } from "./failure_routes.ts";
import { addRepairRoutes } from "./repair_routes.ts";
import { addHourRoutes } from "./hour_routes.ts";
import { addListRoutes } from "./list_routes.ts";
import { printError } from "../common/print.ts";

/** A repaired payload may be long, and a form makes it longer. */
const MAX_FORM_BYTES = 16 * 1024 * 1024;

const ICON =
  `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><rect width="16" height="16" rx="3" fill="#0b5cad"/><path d="M4 8.5 7 11l5-6" fill="none" stroke="#fff" stroke-width="2"/></svg>`;

/** Returns the console as an app that answers requests. */
export function createConsole(options: ConsoleOptions): Hono {
  const { project, session, style, host } = options;
  const app = new Hono();

  function show(
    c: Context,
    page: { title: string; content: Html },
    status: 200 | 404 | 422 | 502 = 200,
  ): Response {
    const frame = {
      projectUrl: project.url,
      path: c.req.path,
      notice: takeNotice(c),
      searched: c.req.path === "/search" ? c.req.query("q") ?? "" : "",
    };
    return c.html(layout(page, frame), status);
  }

  /** While an action runs, the operator may have gone to another page. */
  function takeNotice(c: Context): Notice | undefined {
    const { pathname, search } = new URL(c.req.url);
    const { notice } = session;
    if (notice?.path !== pathname + search) return undefined;
    session.notice = undefined;
    return notice;
  }

  function showResult(c: Context, path: string, notice: Notice): Response {
    session.notice = { ...notice, path };
    return c.redirect(path, 303);
  }

  app.use(addHeaders);
  app.use(bodyLimit({
    maxSize: MAX_FORM_BYTES,
    onError: (c) => c.html(refusedPage("This form is too long."), 413),
  }));
  app.use(guard({ session, host }));
  app.get(
    "/style.css",
    (c) => c.body(style, 200, { "content-type": "text/css" }),
  );
  app.get(
    "/icon.svg",
    (c) => c.body(ICON, 200, { "content-type": "image/svg+xml" }),
  );
  const routes = { ...options, app, show, showResult };
  addHourRoutes(routes); // first: it hears of actions
  addListRoutes(routes);
  addFailureRoutes(routes);
  addRepairRoutes(routes);

  app.notFound((c) =>
    show(c, {
      title: "Not found",
      content: missingPage("There is no such page."),
    }, 404)
  );
  app.onError((error, c) => {
    if (!(error instanceof ProjectError)) {
      printError(...(error.stack ?? error.message).split("\n"));
    }
    const shown = error instanceof ProjectError ? error : new ProjectError(
      "The console itself failed.",
      "The terminal has the error: please report it.",
    );
    return show(c, { title: "Trouble", content: troublePage(shown) }, 502);
  });
  return app;
}
