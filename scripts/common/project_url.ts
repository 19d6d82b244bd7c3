import { UsageError } from "./checked.ts";
import { isLoopback } from "./loopback.ts";

/**
 * Returns the address of a project without slashes at its end. The project's
 * secret key goes there: over https, or to this machine.
 *
 * @param name The option or variable that it comes from.
 * @throws {UsageError}
 */
export function checkedProjectUrl(name: string, text: string): string {
  const url = URL.parse(text);
  const isSafe = url?.protocol === "https:" ||
    (url?.protocol === "http:" && isLoopback(text));
  if (isSafe && url.username === "" && url.password === "" && isWhole(url)) {
    return url.origin + url.pathname.replace(/\/+$/, "");
  }
  // Not the text: it may hold a password.
  throw new UsageError(
    `${name} takes a URL such as https://abc.supabase.co. http is only for this machine, and a user name or password never belongs into it.`,
  );
}

/** Whether it is a project's address, to which paths can be added. */
function isWhole({ search, hash, pathname }: URL): boolean {
  return search === "" && hash === "" && !pathname.includes("/functions/v1");
}
