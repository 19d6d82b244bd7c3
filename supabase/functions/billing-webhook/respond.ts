import { ANSWERS, type DeliveryError } from "../_shared/billing/errors.ts";

/** A hint in seconds; providers keep to their own schedules anyway. */
const RETRY_AFTER_SECONDS = "5";

/** The answer to a delivery that is done with. */
export function respondOk(): Response {
  return new Response("OK", { status: 200, headers: textHeaders() });
}

/** The answer to one that failed. Its error says nothing beyond its code. */
export function respondError({ code }: DeliveryError): Response {
  const { status, body } = ANSWERS[code];
  const headers = textHeaders();
  if (status === 405) headers.set("allow", "POST");
  if (status === 503) headers.set("retry-after", RETRY_AFTER_SECONDS);
  return new Response(body, { status, headers });
}

function textHeaders(): Headers {
  return new Headers({ "content-type": "text/plain; charset=utf-8" });
}
