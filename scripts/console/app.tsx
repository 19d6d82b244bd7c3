/** @jsxImportSource hono/jsx */
/**
 * The console: who gets in, the screens, and what an error shows. Only the browser
 * that opened the console's link gets in, and only under the address that the
 * console listens on: another website may have its name lead to this machine (DNS
 * rebinding), or send a form here.
 */
import { type Context, Hono, type MiddlewareHandler } from "hono";
import { bodyLimit } from "hono/body-limit";
import { getCookie, setCookie } from "hono/cookie";
import { timingSafeEqual } from "hono/utils/buffer";
import { randomBytes } from "node:crypto";
import { printError } from "../common/print.ts";
import { ProjectError } from "../common/project_api.ts";
import { addFailure } from "./failure.tsx";
import { addFailures } from "./failures.tsx";
import { addNotifications } from "./notifications.tsx";
import { addOverview } from "./overview.tsx";
import { html, page, STYLE } from "./page.tsx";
import type { Project } from "./project.ts";
import { addSearch } from "./search.tsx";
import { type Console, type Notice, visibleLines } from "./ui.tsx";

/** A repaired payload may be long, and a form makes it longer. */
const MAX_FORM_BYTES = 16 * 1024 * 1024;

/** The headers of every answer. Pages hold personal data, so no cache keeps them. */
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

/** The secrets of the one browser that this process lets in. */
type Session = ReturnType<typeof createSession>;

export function createSession() {
  const secret = () => randomBytes(32).toString("base64url");
  return {
    /** Part of the URL that is opened. It lets in one browser, once. */
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
      // While an action runs, the operator may have gone to another page.
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
        "The console itself failed. The terminal has the error: please report it.";
    }
    const content = [
      <h1>The project did not answer as expected</h1>,
      <p>{visibleLines(message)}</p>,
      <p>Then reload this page.</p>,
    ];
    return console.show(c, "Trouble", content, 502);
  });
  return app;
}

/** Lets through only requests that pages of the console make in the session's browser. */
function guard(session: Session, host: () => string): MiddlewareHandler {
  const cookieName = () => `billing_console_${host().split(":")[1]}`;

  return async function admit(c, next) {
    if (c.req.header("host") !== host()) {
      return refuse(c, 421, "This console answers only under its own address.");
    }
    // The style sheet says nothing about the project.
    if (c.req.path === "/style.css") return await next();

    const cookie = getCookie(c, cookieName()) ?? "";
    const isKnown = await timingSafeEqual(cookie, session.cookie);
    const token = c.req.query("token");
    // Not HEAD: a program that previews links must not use this one up.
    if (c.req.method === "GET" && c.req.path === "/" && token !== undefined) {
      return isKnown ? c.redirect("/", 303) : await exchange(c, token);
    }
    if (!isKnown) {
      return refuse(c, 401, "Open the link that the console has printed.");
    }

    const isRead = c.req.method === "GET" || c.req.method === "HEAD";
    // Browsers send this header with every form, and no page can choose it.
    if (!isRead && c.req.header("origin") !== `http://${host()}`) {
      return refuse(
        c,
        403,
        "This form was not sent by a page of this console. Open the page again, and try once more.",
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
        "This link is wrong, or it was used already. End the console with Ctrl-C, and start it again for a new one.",
      );
    }

    session.isTokenUsed = true;
    setCookie(c, cookieName(), session.cookie, {
      httpOnly: true,
      sameSite: "Strict",
      path: "/",
    });
    // A redirect counts as a request of the page that had the link. If that is
    // another website, it would come without the cookie.
    const head = <meta http-equiv="refresh" content="0; url=/" />;
    return html(c, { head, body: <a href="/">Open the console</a> });
  }
}

function refuse(
  c: Context,
  status: 401 | 403 | 413 | 421,
  text: string,
): Response {
  const body = (
    <main class="container">
      <h1>Not let in</h1>
      <p>{text}</p>
    </main>
  );
  return html(c, { body }, status);
}
