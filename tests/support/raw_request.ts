/**
 * Promises a body, sends a byte of it every second, and waits for the answer:
 * what no HTTP client would do.
 *
 * @returns the status of the answer.
 */
export async function slowRequest(url: string): Promise<number> {
  const { hostname, port, pathname } = new URL(url);
  using connection = await Deno.connect({ hostname, port: Number(port) });
  const encoder = new TextEncoder();
  await connection.write(encoder.encode(
    `POST ${pathname} HTTP/1.1\r\nHost: ${hostname}\r\nContent-Length: 1000\r\n\r\n`,
  ));
  const trickle = setInterval(() => {
    connection.write(encoder.encode("x")).catch(() => {});
  }, 1000);
  try {
    const buffer = new Uint8Array(1024);
    const length = await connection.read(buffer) ?? 0;
    const head = new TextDecoder().decode(buffer.subarray(0, length));
    return Number(/^HTTP\/1\.1 (\d{3})/.exec(head)?.[1]);
  } finally {
    clearInterval(trickle);
  }
}
