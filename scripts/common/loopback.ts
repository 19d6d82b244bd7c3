/** The project's URL under `deno task start` and `supabase start`. */
export const LOCAL_PROJECT_URL = "http://127.0.0.1:54321";

export const LOCAL_WEBHOOK_URL =
  `${LOCAL_PROJECT_URL}/functions/v1/billing-webhook`;

/** 127.0.0.0/8 (RFC 5735), [::1] and localhost, but not 127.example.com. */
const LOOPBACK = /^(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])$/i;

export function isLoopback(url: string): boolean {
  return LOOPBACK.test(URL.parse(url)?.hostname ?? "");
}

export function isLoopbackHost(host: string): boolean {
  return LOOPBACK.test(host.replace(/:\d{1,5}$/, ""));
}

export async function isListening(port: number): Promise<boolean> {
  try {
    using connection = await Deno.connect({ hostname: "127.0.0.1", port });
    // Linux may choose the same port for this end. If nothing listens there, the
    // socket is then connected to itself (measured: 2 of 150,000).
    return connection.localAddr.port !== port;
  } catch {
    return false;
  }
}
