/** The head of an HTTP/1.1 request; one character is one byte. */
export type RequestHead = {
  method: string;
  target: string;
  version: string;
  /** The header lines as they came, without line ends. */
  lines: string[];
  /** The body's length in bytes, or "chunked". */
  body: number | "chunked";
};

const REQUEST_LINE =
  /^([!#$%&'*+.^_`|~\w-]+) ([^\0-\x20\x7f]+) (HTTP\/1\.[01])$/;
/** A header line, or a trailer's, without its end (RFC 9112, section 5). */
export const HEADER_LINE = /^[!#$%&'*+.^_`|~\w-]+:[^\r\n\0]*$/;

/**
 * Reads a request's head, as strictly as it takes to be sure where the body
 * ends (RFC 9112, sections 3, 5.1 and 6.3). The rest is for the service to
 * judge.
 *
 * @param text with its closing empty line
 * @returns nothing where it is malformed
 */
export function parseRequestHead(text: string): RequestHead | undefined {
  const [first = "", ...lines] = text.slice(0, -4).split("\r\n");
  const [, method, target, version] = REQUEST_LINE.exec(first) ?? [];
  if (!method || !target || !version) return undefined;
  if (!lines.every((line) => HEADER_LINE.test(line))) return undefined;
  const body = bodyOf(lines);
  return body === undefined
    ? undefined
    : { method, target, version, lines, body };
}

/** Whether each `Host` header, and there is one, satisfies a test. */
export function hasHost(
  lines: string[],
  test: (host: string) => boolean,
): boolean {
  const hosts = valuesOf(lines, "host");
  return hosts.length > 0 && hosts.every(test);
}

/** A header's value: the first one, where it is repeated. */
export function headerOf(lines: string[], name: string): string | undefined {
  return valuesOf(lines, name)[0];
}

function valuesOf(lines: string[], name: string): string[] {
  const start = `${name}:`;
  return lines
    .filter((line) => line.slice(0, start.length).toLowerCase() === start)
    .map((line) => line.slice(start.length).trim());
}

function bodyOf(lines: string[]): RequestHead["body"] | undefined {
  const codings = valuesOf(lines, "transfer-encoding");
  const lengths = valuesOf(lines, "content-length");
  if (codings.length > 0) {
    const isChunked = codings.join(",").toLowerCase() === "chunked";
    return isChunked && lengths.length === 0 ? "chunked" : undefined;
  }
  const [length = "0", ...others] = lengths;
  const isNumber = /^\d{1,15}$/.test(length);
  return isNumber && others.length === 0 ? Number(length) : undefined;
}
