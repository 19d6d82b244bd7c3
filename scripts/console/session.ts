import { Buffer } from "node:buffer";
import { createHash, randomBytes, timingSafeEqual } from "node:crypto";

/** What this process knows about the one browser that it lets in. */
export interface Session {
  /** In the URL that is opened; it lets in one browser, once. */
  readonly token: string;
  /** The value of the browser's cookie. */
  readonly cookie: string;
  /** In every form. */
  readonly csrf: string;
  isTokenUsed: boolean;
  /** The result of the last action, until its page is shown. */
  notice: PlacedNotice | undefined;
}

/** What to tell the operator after an action. */
export interface Notice {
  readonly kind: "good" | "bad";
  readonly text: string;
}

/** A notice, and the page that it is about. */
export interface PlacedNotice extends Notice {
  /** The path with its query. */
  readonly path: string;
}

/** Makes a session with new random secrets. */
export function createSession(): Session {
  return {
    token: randomText(),
    cookie: randomText(),
    csrf: randomText(),
    isTokenUsed: false,
    notice: undefined,
  };
}

/** Compares secrets in a time that says nothing about where they differ. */
export function isSameSecret(
  given: string | undefined,
  secret: string,
): boolean {
  return given !== undefined && timingSafeEqual(hash(given), hash(secret));
}

function hash(text: string): Buffer {
  return createHash("sha256").update(text).digest();
}

function randomText(): string {
  return randomBytes(32).toString("base64url");
}
