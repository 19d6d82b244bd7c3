import type { Context, MiddlewareHandler, Next } from "hono";
import { getCookie, setCookie } from "hono/cookie";
import { refusedPage } from "./pages/refused.ts";
import { welcomePage } from "./pages/welcome.ts";
import { isSameSecret, type Session } from "./session.ts";

/** They tell nothing about the project. */
const PUBLIC_PATHS = ["/style.css", "/icon.svg"];

/**
 * Lets in only the browser that opened the console's URL, and only under the
 * address that the console listens on: another website may have its name lead to
 * this machine (DNS rebinding), or send a form here.
 *
 * @param options.host Returns the address with its port.
 */
export function guard(
  { session, host }: { session: Session; host: () => string },
): MiddlewareHandler {
  const cookieName = () => `billing_console_${host().split(":")[1]}`;

  async function admit(c: Context, next: Next): Promise<Response | void> {
    if (c.req.header("host") !== host()) {
      return refuse(c, 421, "This console answers only under its own address.");
    }
    if (PUBLIC_PATHS.includes(c.req.path)) return await next();
    const isKnown = isSameSecret(getCookie(c, cookieName()), session.cookie);
    const token = c.req.query("token");
    // Not HEAD: a program that previews links must not use this one up.
    if (c.req.method === "GET" && c.req.path === "/" && token !== undefined) {
      if (isKnown) return c.redirect("/", 303);
      return exchange(c, token);
    }
    if (!isKnown) {
      return refuse(c, 401, "Open the link that the console has printed.");
    }
    if (c.req.method !== "GET" && c.req.method !== "HEAD") {
      const isOwnForm = c.req.header("origin") === `http://${host()}` &&
        [undefined, "same-origin"].includes(c.req.header("sec-fetch-site"));
      const { csrf } = isOwnForm ? await c.req.parseBody() : {};
      if (typeof csrf !== "string" || !isSameSecret(csrf, session.csrf)) {
        return refuse(
          c,
          403,
          "This form was not sent by a page of this console. Open the page again, and try once more.",
        );
      }
    }
    await next();
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
    return c.req.header("sec-fetch-site") === "cross-site"
      ? c.html(welcomePage())
      : c.redirect("/", 303);
  }

  return admit;
}

function refuse(c: Context, status: 401 | 403 | 421, text: string): Response {
  return c.html(refusedPage(text), status);
}
