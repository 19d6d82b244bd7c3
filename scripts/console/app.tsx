/** @jsxImportSource hono/jsx */
/**
 * The console's access control, pages and error pages. Only the browser that opened
 * the link gets in, and only at the console's own address: another website could point
 * its name at this machine (DNS rebinding), or send a form here.
 */
import { type Context, Hono, type MiddlewareHandler } from "hono";
import { bodyLimit } from "hono/body-limit";
import { getCookie, setCookie } from "hono/cookie";
import { timingSafeEqual } from "hono/utils/buffer";
import type { ContentfulStatusCode } from "hono/utils/http-status";
import { randomBytes } from "node:crypto";
import { printError } from "../common/cli.ts";
import { ProjectError } from "../common/project_api.ts";
import { addGrants } from "./account.tsx";
import { addFailure } from "./failure.tsx";
import { addFailures } from "./failures.tsx";
import { addNotifications } from "./notifications.tsx";
import { addOverview } from "./overview.tsx";
import { html, page, STYLE } from "./page.tsx";
import type { Project } from "./project.ts";
import { addSearch } from "./search.tsx";
import { type Console, type Notice, visibleLines } from "./ui.tsx";

/** A repaired payload may be long, and form encoding makes it longer. */
const MAX_FORM_BYTES = 16 * 1024 * 1024;

const HEADERS = {
  // No script runs, and nothing is loaded from anywhere else.
  "content-security-policy":
    "default-src 'none'; style-src 'self'; img-src data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
  "cache-control": "no-store",
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-resource-policy": "same-origin",
  // Not no-referrer: browsers then send "Origin: null" with our own forms.
  "referrer-policy": "same-origin",
  "x-content-type-options": "nosniff",
  "x-frame-options": "DENY",
};

type Session = ReturnType<typeof createSession>;

export function createSession() {
  const secret = () => randomBytes(32).toString("base64url");
  return {
    /** In the printed link. It lets one browser in, once. */
    token: secret(),
    cookie: secret(),
    isTokenUsed: false,
  };
}

export function createConsole(
  { project, session, host }: {
    project: Project;
    session: Session;
    host: () => string;
  },
): Hono {
  const app = new Hono();
  let notice: Notice & { path: string } | undefined;
  const console: Console = {
    app,
    project,
    show(c, title, content, status) {
      const { pathname, search } = new URL(c.req.url);
      // While an action runs, the operator may open another page.
      const shown = notice?.path === pathname + search ? notice : undefined;
      if (shown) notice = undefined;
      const body = page(c, { url: project.url, notice: shown, content });
      return html(c, { title, body }, status);
    },
    showResult(c, path, result) {
      notice = { ...result, path };
      return c.redirect(path, 303);
    },
  };

  app.use(async (c, next) => {
    await next();
    for (const [name, value] of Object.entries(HEADERS)) c.header(name, value);
  });

  app.use(bodyLimit({
    maxSize: MAX_FORM_BYTES,
    onError: (c) => refuse(c, 413, "This form is too long."),
  }));
  app.use(guard(session, host));

  app.get(
    "/style.css",
    (c) => c.body(STYLE, 200, { "content-type": "text/css" }),
  );
  addOverview(console);
  addFailures(console);
  addFailure(console);
  addNotifications(console);
  addSearch(console);
  addGrants(console);

  app.notFound((c) => {
    const content = [
      <h1>Not found</h1>,
      <p>There is no such page or failure.</p>,
    ];
    return console.show(c, "Not found", content, 404);
  });

  app.onError((error, c) => {
    let { message } = error;
    if (!(error instanceof ProjectError)) {
      printError(...(error.stack ?? message).split("\n"));
      message =
        "The console itself failed. Please report the error in the terminal.";
    }
    const content = [
      <h1>This page cannot be shown</h1>,
      <p>{visibleLines(message)}</p>,
      <p>Then reload this page.</p>,
    ];
    return console.show(c, "Error", content, 502);
  });
  return app;
}

function guard(session: Session, host: () => string): MiddlewareHandler {
  const cookieName = () => `billing_console_${host().split(":")[1]}`;

  return async function admit(c, next) {
    if (c.req.header("host") !== host()) {
      return refuse(c, 421, "This console answers only under its own address.");
    }
    // The style sheet reveals nothing about the project.
    if (c.req.path === "/style.css") return await next();

    const cookie = getCookie(c, cookieName()) ?? "";
    const isKnown = await timingSafeEqual(cookie, session.cookie);
    const token = c.req.query("token");
    // A HEAD request, as for a link preview, must not use the link up.
    if (c.req.method === "GET" && c.req.path === "/" && token !== undefined) {
      return isKnown ? c.redirect("/", 303) : await exchange(c, token);
    }
    if (!isKnown) {
      return refuse(c, 401, "Open the link that the console printed.");
    }

    const isRead = c.req.method === "GET" || c.req.method === "HEAD";
    // Browsers send this header with every form, and no page can set it.
    if (!isRead && c.req.header("origin") !== `http://${host()}`) {
      return refuse(
        c,
        403,
        "This form was not sent by a page of this console. Open the page again.",
      );
    }
    await next();
  };

  /** The link works once: other users of the machine may see it in `ps`. */
  async function exchange(c: Context, token: string): Promise<Response> {
    const isRight = await timingSafeEqual(token, session.token);
    if (session.isTokenUsed || !isRight) {
      return refuse(
        c,
        401,
        "This link is wrong or was already used. For a new one, start the console again.",
      );
    }

    session.isTokenUsed = true;
    setCookie(c, cookieName(), session.cookie, {
      httpOnly: true,
      sameSite: "Strict",
      path: "/",
    });
    // A redirect would count as a request of the page that had the link. From
    // another website's page, it would lack the cookie.
    const head = <meta http-equiv="refresh" content="0; url=/" />;
    return html(c, { head, body: <a href="/">Open the console</a> });
  }
}

function refuse(
  c: Context,
  status: ContentfulStatusCode,
  text: string,
): Response {
  const body = (
    <main class="container">
      <h1>Request refused</h1>
      <p>{text}</p>
    </main>
  );
  return html(c, { body }, status);
}
