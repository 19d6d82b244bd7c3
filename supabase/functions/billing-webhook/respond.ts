import { ANSWERS, type DeliveryError } from "../_shared/billing/errors.ts";

/** Only a hint: providers follow their own schedules. */
const RETRY_AFTER_SECONDS = "5";

const TEXT = { "content-type": "text/plain; charset=utf-8" } as const;

/** Returns the reply to a delivery that needs nothing more. */
export function respondOk(): Response {
  return new Response("OK", { status: 200, headers: TEXT });
}

/** Returns the reply to a failed delivery. It depends only on the code. */
export function respondError({ code }: DeliveryError): Response {
  const { status, body } = ANSWERS[code];
  const headers = new Headers(TEXT);
  if (status === 405) headers.set("allow", "POST");
  if (status === 503) headers.set("retry-after", RETRY_AFTER_SECONDS);
  return new Response(body, { status, headers });
}
