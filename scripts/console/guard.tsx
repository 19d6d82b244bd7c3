/** @jsxImportSource hono/jsx */
/**
 * Who gets in: only the browser that opened the console's link, and only under
 * the address that the console listens on. Another website may have its name
 * lead to this machine (DNS rebinding), or send a form here.
 *
 * @module
 */
import type { Context, MiddlewareHandler, Next } from "hono";
import { getCookie, setCookie } from "hono/cookie";
import { createHash, randomBytes, timingSafeEqual } from "node:crypto";
import { html, type Notice } from "./layout.tsx";

/** What this process knows about the one browser that it lets in. */
export interface Session {
  /** In the URL that is opened; it lets in one browser, once. */
  readonly token: string;
  /** The value of the browser's cookie. */
  readonly cookie: string;
  /** In every form. */
  readonly csrf: string;
  isTokenUsed: boolean;
  /** The result of the last action, until the page with this path shows it. */
  notice: (Notice & { readonly path: string }) | undefined;
}

/** Makes a session with new random secrets. */
export function createSession(): Session {
  const [token, cookie, csrf] = [secret(), secret(), secret()];
  return { token, cookie, csrf, isTokenUsed: false, notice: undefined };
}

function secret(): string {
  return randomBytes(32).toString("base64url");
}

/** Compares secrets in a time that says nothing about where they differ. */
function isSameSecret(given: string | undefined, secret: string): boolean {
  const hash = (text: string) => createHash("sha256").update(text).digest();
  return given !== undefined && timingSafeEqual(hash(given), hash(secret));
}

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

/** Adds the headers to every answer, also to refusals and errors. */
export const addHeaders: MiddlewareHandler = async (c, next) => {
  await next();
  for (const [name, value] of Object.entries(HEADERS)) c.header(name, value);
};

/** They tell nothing about the project. */
const PUBLIC_PATHS = /^\/(?:style\.css|icon\.svg|pico\/\d+\.svg)$/;

/**
 * Lets through what the browser of the session asks for by itself.
 *
 * @param host Returns the address that the console listens on, with its port.
 */
export function guard(
  session: Session,
  host: () => string,
): MiddlewareHandler {
  const cookieName = () => `billing_console_${host().split(":")[1]}`;

  return async function admit(c: Context, next: Next) {
    if (c.req.header("host") !== host()) {
      return refuse(c, 421, "This console answers only under its own address.");
    }
    if (PUBLIC_PATHS.test(c.req.path)) return await next();
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
    return html(c, {
      head: <meta http-equiv="refresh" content="0; url=/" />,
      body: (
        <main class="container">
          <a href="/">Open the console</a>
        </main>
      ),
    });
  }
}

/** Answers with a page that tells nothing about the project. */
export function refuse(
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
