import { encodeLatin1 } from "./latin1.ts";

const ANSWERS = {
  400: ["Bad Request", "The request is malformed"],
  401: ["Unauthorized", "The request has no valid apikey"],
  403: [
    "Forbidden",
    "Only the webhook is served under this name: use 127.0.0.1 or localhost",
  ],
  404: ["Not Found", "No service has this path"],
  405: ["Method Not Allowed", "The gateway does not pass this method on"],
  502: ["Bad Gateway", "The service does not answer"],
} as const;

/** The statuses that the gateway answers with by itself. */
export type GatewayStatus = keyof typeof ANSWERS;

/** The gateway's own answer, after which it closes the connection. */
export function gatewayAnswer(status: GatewayStatus): Uint8Array {
  const [reason, message] = ANSWERS[status];
  const body = JSON.stringify({ message });
  return encodeLatin1([
    `HTTP/1.1 ${status} ${reason}`,
    "Content-Type: application/json",
    `Content-Length: ${body.length}`,
    "Connection: close",
    "",
    body,
  ].join("\r\n"));
}
