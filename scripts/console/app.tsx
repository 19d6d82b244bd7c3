/** @jsxImportSource hono/jsx */
/**
 * The console: who gets in, the screens, and what an error shows. Only the browser
 * that opened the console's link gets in, and only under the address that the
 * console listens on: another website may have its name lead to this machine (DNS
 * rebinding), or send a form here.
 *
 * @module
 */
import { type Context, Hono, type MiddlewareHandler } from "hono";
import { bodyLimit } from "hono/body-limit";
import { getCookie, setCookie } from "hono/cookie";
import { createHash, randomBytes, timingSafeEqual } from "node:crypto";
import { printError } from "../common/print.ts";
import { addFailure } from "./failure.tsx";
import { addFailures } from "./failures.tsx";
import { addNotifications } from "./notifications.tsx";
import { addOverview } from "./overview.tsx";
import { FILES, form, html, page } from "./page.tsx";
import { type Project, ProjectError } from "./project.ts";
import { addSearch } from "./search.tsx";
import { type Console, type Notice, visibleLines } from "./ui.tsx";

/** A repaired payload may be long, and a form makes it longer. */
const MAX_FORM_BYTES = 16 * 1024 * 1024;

/** On every answer. Pages hold personal data, so that no cache keeps them. */
const HEADERS = {
  // No script runs, and nothing is loaded from anywhere else.
  "content-security-policy":
    "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
  "cache-control": "no-store",
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-resource-policy": "same-origin",
  // Not no-referrer: browsers then send "Origin: null" with our own forms.
  "referrer-policy": "same-origin",
  "x-content-type-options": "nosniff",
  "x-frame-options": "DENY",
};

/** What this process knows about the one browser that it lets in. */
export interface Session {
  /** In the URL that is opened; it lets in one browser, once. */
  readonly token: string;
  /** The value of the browser's cookie. */
  readonly cookie: string;
  /** In every form. */
  readonly csrf: string;
  isTokenUsed: boolean;
}

/** Makes a session with new random secrets. */
export function createSession(): Session {
  const secret = () => randomBytes(32).toString("base64url");
  const [token, cookie, csrf] = [secret(), secret(), secret()];
  return { token, cookie, csrf, isTokenUsed: false };
}

/** Compares secrets in a time that says nothing about where they differ. */
function isSameSecret(given: string | undefined, secret: string): boolean {
  const hash = (text: string) => createHash("sha256").update(text).digest();
  return given !== undefined && timingSafeEqual(hash(given), hash(secret));
}

/**
 * Returns the console as an app that answers requests.
 *
 * @param options.host Returns the address that it listens on, with the port.
 */
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
    form: (path, fields, content, sql) =>
      form(path, { csrf: session.csrf, ...fields }, content, sql),
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
  for (const [path, text] of FILES) {
    const type = path.endsWith(".css") ? "text/css" : "image/svg+xml";
    app.get(path, (c) => c.body(text, 200, { "content-type": type }));
  }
  addOverview(console);
  addFailures(console);
  addFailure(console);
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
    const message = isOwn
      ? "The console itself failed. The terminal has the error: please report it."
      : `${error.message}\n${error.hint}`.trim();
    const content = [
      <h1>The project did not answer as expected</h1>,
      <p>{visibleLines(message)}</p>,
      <p>Then reload this page.</p>,
    ];
    return console.show(c, "Trouble", content, 502);
  });
  return app;
}

/** Lets through what the browser of the session asks for by itself. */
function guard(session: Session, host: () => string): MiddlewareHandler {
  const cookieName = () => `billing_console_${host().split(":")[1]}`;

  return async function admit(c, next) {
    if (c.req.header("host") !== host()) {
      return refuse(c, 421, "This console answers only under its own address.");
    }
    if (FILES.has(c.req.path)) return await next();
    const isKnown = isSameSecret(getCookie(c, cookieName()), session.cookie);
    const token = c.req.query("token");
    // Not HEAD: a program that previews links must not use this one up.
    if (c.req.method === "GET" && c.req.path === "/" && token !== undefined) {
      return isKnown ? c.redirect("/", 303) : exchange(c, token);
    }
    if (!isKnown) {
      return refuse(c, 401, "Open the link that the console has printed.");
    }
    const isRead = c.req.method === "GET" || c.req.method === "HEAD";
    if (!isRead && !await isOwnForm(c)) {
      return refuse(
        c,
        403,
        "This form was not sent by a page of this console. Open the page again, and try once more.",
      );
    }
    await next();
  };

  async function isOwnForm(c: Context): Promise<boolean> {
    if (c.req.header("origin") !== `http://${host()}`) return false;
    const site = c.req.header("sec-fetch-site");
    if (site !== undefined && site !== "same-origin") return false;
    const { csrf } = await c.req.parseBody();
    return typeof csrf === "string" && isSameSecret(csrf, session.csrf);
  }

  /** The link works once: other users of the machine may see it in `ps`. */
  function exchange(c: Context, token: string): Response {
    if (session.isTokenUsed || !isSameSecret(token, session.token)) {
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
    // another website, it comes without the cookie.
    if (c.req.header("sec-fetch-site") !== "cross-site") {
      return c.redirect("/", 303);
    }
    const head = <meta http-equiv="refresh" content="0; url=/" />;
    return html(c, { head, body: <a href="/">Open the console</a> });
  }
}

/** Answers with a page that tells nothing about the project. */
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
