/**
 * The verdict of the providers' own packages on a delivery.
 *
 * @module
 */
import { Webhook, WebhookVerificationError } from "standardwebhooks";
import Stripe from "stripe";
import { macOf } from "../support/sign.ts";
import { isFaulty } from "./secrets.ts";
import { HEADERS, NOW, type VerifierCase } from "./verifier_case.ts";

const TOLERANCE_SECONDS = 300;
/** Any text that the packages take. */
const STAND_IN = "{}";
const webhooks = new Map<string, Webhook>();

/** Whether the package of the scheme accepts it with one of the secrets. */
export async function isAcceptedByReference(
  delivery: VerifierCase,
): Promise<boolean> {
  for (const secret of delivery.secrets) {
    if (await acceptsWith(secret, delivery)) return true;
  }
  return false;
}

function acceptsWith(
  secret: string,
  delivery: VerifierCase,
): boolean | Promise<boolean> {
  const { scheme, body, headers } = delivery;
  const text = textOf(body);
  switch (scheme) {
    case "hmac-sha256-hex":
      return headers.get(HEADERS[scheme])?.toLowerCase() ===
        macOf(scheme, body, { secret, time: "", id: "" });
    case "stripe":
      return stripeAccepts(delivery, { secret, text });
    case "standard-webhooks":
      return standardAccepts(delivery, { secret, text });
  }
}

async function stripeAccepts(
  { headers, body }: VerifierCase,
  { secret, text }: { secret: string; text: string | undefined },
): Promise<boolean> {
  let header = headers.get(HEADERS.stripe) ?? "";
  header = header.replaceAll(
    /(?<=(?:^|,)v1=)[0-9a-f]{64}(?=$|,|=)/gi,
    (mac) => mac.toLowerCase(),
  );
  if (!text) {
    const time = /(?:^|,)t=([^,=]*)/.exec(header)?.[1] ?? "";
    const signed = { secret, time, id: "" };
    header = header.replaceAll(
      macOf("stripe", body, signed),
      macOf("stripe", STAND_IN, signed),
    );
  }
  try {
    await Stripe.webhooks.constructEventAsync(
      text || STAND_IN,
      header,
      secret,
      TOLERANCE_SECONDS,
      undefined,
      NOW * 1_000,
    );
    return true;
  } catch (error) {
    // It verifies first and parses then.
    if (error instanceof SyntaxError) return true;
    if (
      error instanceof Stripe.errors.StripeSignatureVerificationError ||
      // The package itself breaks on a v1 without "=".
      error instanceof TypeError && /(^|,)v1(,|$)/.test(header)
    ) {
      return false;
    }
    throw error;
  }
}

function standardAccepts(
  { headers, body }: VerifierCase,
  { secret, text }: { secret: string; text: string | undefined },
): boolean {
  const values = Object.fromEntries(headers);
  if (text === undefined) {
    const time = values["webhook-timestamp"] ?? "";
    const signed = { secret, time, id: values["webhook-id"] ?? "" };
    values["webhook-signature"] = (values["webhook-signature"] ?? "")
      .replaceAll(
        macOf("standard-webhooks", body, signed),
        macOf("standard-webhooks", STAND_IN, signed),
      );
  }
  try {
    webhookOf(secret).verify(text ?? STAND_IN, values, { jsonParse: false });
    return true;
  } catch (error) {
    // Some of what is no secret, the package does not take either.
    if (error instanceof WebhookVerificationError || isFaulty(secret)) {
      return false;
    }
    throw error;
  }
}

function webhookOf(secret: string): Webhook {
  const webhook = webhooks.get(secret) ?? new Webhook(secret);
  webhooks.set(secret, webhook);
  return webhook;
}

/** Returns undefined if it is not UTF-8. A byte order mark stays. */
function textOf(body: Uint8Array): string | undefined {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true })
      .decode(body);
  } catch {
    return undefined;
  }
}
