/** @jsxImportSource hono/jsx */
/**
 * The console: its screens behind the guard, and the server that answers.
 *
 * @module
 */
import pico from "@picocss/pico" with { type: "text" };
import { type Context, Hono } from "hono";
import { bodyLimit } from "hono/body-limit";
import { printError } from "../common/print.ts";
import { addFailure } from "./failure.tsx";
import { addFailures } from "./failures.tsx";
import {
  addHeaders,
  createSession,
  guard,
  refuse,
  type Session,
} from "./guard.tsx";
import { addHours } from "./hours.tsx";
import { actionForm, type Console, html, pageBody } from "./layout.tsx";
import { addNotifications } from "./notifications.tsx";
import { addOverview } from "./overview.tsx";
import {
  openProject,
  type Project,
  type ProjectAccess,
  ProjectError,
} from "./project.ts";
import { addRepair } from "./repair.tsx";
import { addSearch } from "./search.tsx";
import style from "./style.css" with { type: "text" };
import { visibleLines } from "./text.tsx";

/** A repaired payload may be long, and a form makes it longer. */
const MAX_FORM_BYTES = 16 * 1024 * 1024;
const HOSTNAME = "127.0.0.1";
const ICON =
  `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><rect width="16" height="16" rx="3" fill="#0b5cad"/><path d="M4 8.5 7 11l5-6" fill="none" stroke="#fff" stroke-width="2"/></svg>`;

/** Pico's icons are data: URLs, which the policy does not allow. */
const PICO_ICONS: string[] = [];
const STYLE = pico.replace(
  /url\("data:image\/svg\+xml,([^"]+)"\)/g,
  (_, icon) => {
    const index = PICO_ICONS.push(decodeURIComponent(icon)) - 1;
    return `url("/pico/${index}.svg")`;
  },
) + style;

/** What the console needs. */
export interface ConsoleOptions {
  readonly project: Project;
  readonly session: Session;
  /** Returns the address that the console listens on, with its port. */
  readonly host: () => string;
  /** Returns milliseconds since the epoch. */
  readonly clock: () => number;
}

/** Returns the console as an app that answers requests. */
export function createConsole(
  { project, session, host, clock }: ConsoleOptions,
): Hono {
  const app = new Hono();
  const { csrf } = session;
  const console: Console = {
    app,
    project,
    clock,
    show(c, title, content, status) {
      const { pathname, search } = new URL(c.req.url);
      // While an action runs, the operator may have gone to another page.
      const isHere = session.notice?.path === pathname + search;
      const notice = isHere ? session.notice : undefined;
      if (isHere) session.notice = undefined;
      const body = pageBody(c, { url: project.url, notice, content });
      return html(c, { title, body }, status);
    },
    showResult(c, path, notice) {
      session.notice = { ...notice, path };
      return c.redirect(path, 303);
    },
    form: (action, fields, content, sql) =>
      actionForm(action, { csrf, ...fields }, content, sql),
  };

  app.use(addHeaders);
  app.use(bodyLimit({
    maxSize: MAX_FORM_BYTES,
    onError: (c) => refuse(c, 413, "This form is too long."),
  }));
  app.use(guard(session, host));
  const svg = (c: Context, image: string) =>
    c.body(image, 200, { "content-type": "image/svg+xml" });
  app.get("/icon.svg", (c) => svg(c, ICON));
  app.get("/pico/:name", (c) => {
    const icon = PICO_ICONS[Number.parseInt(c.req.param("name"))];
    return icon === undefined ? c.notFound() : svg(c, icon);
  });
  app.get(
    "/style.css",
    (c) => c.body(STYLE, 200, { "content-type": "text/css" }),
  );
  addOverview(console);
  addHours(console);
  addFailures(console);
  addFailure(console);
  addRepair(console);
  addNotifications(console);
  addSearch(console);

  app.notFound((c) => {
    const content = [
      <h1>Not found</h1>,
      <p>There is no such page or failure, or no payload to show.</p>,
    ];
    return console.show(c, "Not found", content, 404);
  });
  app.onError((error, c) => {
    const isOwn = !(error instanceof ProjectError);
    if (isOwn) printError(...(error.stack ?? error.message).split("\n"));
    const message = isOwn ? "The console itself failed." : error.message;
    const hint = isOwn
      ? "The terminal has the error: please report it."
      : error.hint;
    const content = (
      <>
        <h1>The project did not answer as expected</h1>
        <p>{visibleLines(message)}</p>
        {hint && (
          <p>
            <strong>Do:</strong> {visibleLines(hint)}
          </p>
        )}
        <p>Then reload this page.</p>
      </>
    );
    return console.show(c, "Trouble", content, 502);
  });
  return app;
}

/** A console that listens. */
export interface RunningConsole extends AsyncDisposable {
  /** The link that lets a browser in. It works once. */
  readonly link: string;
}

/**
 * Listens on 127.0.0.1.
 *
 * @throws {Error} If the port is in use.
 */
export function serveConsole(
  access: ProjectAccess,
  { port }: { port: number },
): RunningConsole {
  const session = createSession();
  const project = openProject(access, { fetch });
  const app = createConsole({
    project,
    session,
    host: () => host,
    clock: Date.now,
  });
  const server = listen(port, app.fetch);
  const host = `${HOSTNAME}:${server.addr.port}`;
  return {
    link: `http://${host}/?token=${session.token}`,
    // At once: a browser keeps its connections open.
    [Symbol.asyncDispose]: async () => {
      const ending = server.shutdown();
      await Promise.race([
        ending,
        new Promise((done) => setTimeout(done, 500)),
      ]);
    },
  };
}

function listen(
  port: number,
  handler: (request: Request) => Response | Promise<Response>,
) {
  try {
    return Deno.serve(
      { hostname: HOSTNAME, port, onListen() {} },
      (request) => handler(request),
    );
  } catch (error) {
    if (!(error instanceof Deno.errors.AddrInUse)) throw error;
    throw new Error(
      `Port ${port} is in use. Is another console running? Choose another one with --port, or --port=0 for any.`,
    );
  }
}
