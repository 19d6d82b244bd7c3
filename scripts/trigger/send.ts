import { asTyped } from "../common/how_started.ts";
import { isLoopback } from "../common/loopback.ts";
import { type Reply, sendRequest } from "../common/send_request.ts";

/**
 * Posts a signed body, as a provider does.
 *
 * @throws {Error} If there is no answer; the message says what to do.
 */
export async function send(
  url: string,
  { headers, body }: {
    headers: Record<string, string>;
    body: string | Uint8Array<ArrayBuffer>;
  },
): Promise<Reply> {
  const reply = await sendRequest(url, {
    method: "POST",
    headers: { "content-type": "application/json; charset=utf-8", ...headers },
    body,
  });
  if (!("fault" in reply)) return reply;
  const advice = isLoopback(url) && /refused/i.test(reply.fault)
    ? `is the local stack running? Start it with: ${asTyped("start")}`
    : reply.fault;
  throw new Error(`Cannot reach ${url}: ${advice}`);
}
