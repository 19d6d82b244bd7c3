/** Returns whether something listens on a port of 127.0.0.1. */
export async function isListening(port: number): Promise<boolean> {
  try {
    using _connection = await Deno.connect({ hostname: "127.0.0.1", port });
    return true;
  } catch {
    return false;
  }
}
