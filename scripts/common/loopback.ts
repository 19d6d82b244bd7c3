/** 127.0.0.0/8 (RFC 5735), [::1] and localhost; no name that only begins so. */
const LOOPBACK = /^(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])$/i;

/** Returns whether a URL leads to this machine. A text that is no URL does not. */
export function isLoopback(url: string): boolean {
  return LOOPBACK.test(URL.parse(url)?.hostname ?? "");
}

/** Returns whether a `Host` header names this machine, with or without a port. */
export function isLoopbackHost(host: string): boolean {
  return LOOPBACK.test(host.replace(/:\d{1,5}$/, ""));
}
