import {
  DeliveryError,
  toDeliveryError,
  withLogFields,
} from "../_shared/billing/errors.ts";
import type { SignatureProvider } from "./signatures/signature_providers.ts";
import type { Delivery } from "./read_delivery.ts";
import type { SignatureClaim } from "./signatures/schemes.ts";

declare const verified: unique symbol;

/** A delivery that its provider has signed. Only {@linkcode verifyDelivery} makes one. */
export type VerifiedDelivery =
  & Pick<SignatureProvider, "reading" | "acknowledges">
  & Readonly<{
    [verified]: true;
    provider: string;
    /** The delivery's id in a header that was signed, if the scheme has one. */
    deliveryId: string | undefined;
    body: Uint8Array<ArrayBuffer>;
  }>;

const MAX_HEADER_LENGTH = 4_096;

type VerifyOptions = Readonly<{
  providers: readonly SignatureProvider[];
  nowSeconds: number;
  toleranceSeconds: number;
}>;

/**
 * Verifies who sent a delivery. It must carry the signature of a configured provider, in
 * that provider's scheme, over the exact bytes of the body, from a time within the
 * tolerance. If providers share a header, such as two Stripe accounts, the provider is the
 * one whose secret matches.
 *
 * Any signature in the header may match any of the provider's keys, so that a secret can
 * be rotated. `crypto.subtle.verify` compares in constant time.
 *
 * @throws {DeliveryError} A code with status 401, or `provider_misconfigured`.
 */
export async function verifyDelivery(
  delivery: Delivery,
  options: VerifyOptions,
): Promise<VerifiedDelivery> {
  const { header, candidates } = findSignature(delivery.headers, options);

  const errors: DeliveryError[] = [];
  for (const provider of candidates) {
    try {
      const { id } = await verifyAs(provider, header, delivery, options);
      const { name, reading, acknowledges } = provider;
      return {
        provider: name,
        deliveryId: id,
        body: delivery.body,
        reading,
        acknowledges,
      } as VerifiedDelivery;
    } catch (thrown) {
      const fields = candidates.length === 1 ? { provider: provider.name } : {};
      errors.push(withLogFields(toDeliveryError(thrown), fields));
    }
  }

  // A misconfigured provider may be the one that signed.
  throw errors.find(({ code }) => code === "provider_misconfigured") ??
    errors[0];
}

function findSignature(headers: Headers, { providers }: VerifyOptions) {
  const known = new Set(providers.flatMap(({ headers }) => headers));
  const [header, another] = [...known].filter((name) => headers.has(name));
  if (header === undefined) {
    throw new DeliveryError(
      "signature_missing",
      `No signature header: expected ${[...known].join(" or ")}`,
    );
  }
  if (another !== undefined) {
    throw new DeliveryError(
      "signature_ambiguous",
      `Signature headers ${header} and ${another}`,
    );
  }
  const candidates = providers.filter((provider) =>
    provider.headers.includes(header)
  );
  return { header, candidates };
}

async function verifyAs(
  provider: SignatureProvider,
  header: string,
  { headers, body }: Delivery,
  options: VerifyOptions,
): Promise<SignatureClaim> {
  const { name, fault, scheme } = provider;
  if (fault !== undefined) {
    throw new DeliveryError(
      "provider_misconfigured",
      `Cannot verify deliveries of provider ${name}: ${fault}`,
    );
  }

  const isTooLong = headers.get(header)!.length > MAX_HEADER_LENGTH;
  const claim = isTooLong ? undefined : scheme.readClaim(headers, header);
  if (claim === undefined || claim.signatures.length === 0) {
    throw new DeliveryError("signature_malformed");
  }

  checkTime(claim, options);
  if (!await isSigned(body, claim, provider.keys)) {
    throw new DeliveryError("signature_mismatch");
  }
  return claim;
}

function checkTime(
  { timestamp }: SignatureClaim,
  { nowSeconds, toleranceSeconds }: VerifyOptions,
): void {
  if (timestamp === undefined) return;
  const age = Math.floor(nowSeconds) - timestamp;
  if (age > toleranceSeconds) {
    throw new DeliveryError(
      "signature_too_old",
      `Signed ${age} s ago`,
    );
  }
  if (age < -toleranceSeconds) {
    throw new DeliveryError(
      "signature_too_far_ahead",
      `Signed ${-age} s ahead of now`,
    );
  }
}

async function isSigned(
  body: Uint8Array,
  claim: SignatureClaim,
  keys: SignatureProvider["keys"],
): Promise<boolean> {
  const prefix = new TextEncoder().encode(claim.prefix);
  const signed = new Uint8Array(prefix.byteLength + body.byteLength);
  signed.set(prefix);
  signed.set(body, prefix.byteLength);

  for (const key of keys) {
    for (const mac of claim.signatures) {
      if (await crypto.subtle.verify("HMAC", key, mac, signed)) return true;
    }
  }
  return false;
}
