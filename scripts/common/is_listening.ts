/** Returns whether something listens on a port of 127.0.0.1. */
export async function isListening(port: number): Promise<boolean> {
  try {
    using connection = await Deno.connect({ hostname: "127.0.0.1", port });
    // Linux may choose the same port for this end. If nobody listens there, the
    // connection is then with itself (measured: 2 of 150,000).
    return connection.localAddr.port !== port;
  } catch {
    return false;
  }
}
