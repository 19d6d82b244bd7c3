import { DeliveryError } from "../_shared/billing/errors.ts";
import { drainBody } from "./drain_body.ts";
import { type BodyLimits, readBody } from "./read_body.ts";

/** A request that was made to this endpoint. Nothing about it is proved yet. */
export interface Delivery {
  readonly headers: Headers;
  /** The exact bytes that were sent. */
  readonly body: Uint8Array<ArrayBuffer>;
}

const PATHS: ReadonlySet<string> = new Set([
  // At the project's URL, and as a deployed function sees it.
  "/functions/v1/billing-webhook",
  "/billing-webhook",
  "/functions/v1/billing-webhook/api/billing/webhook",
  "/billing-webhook/api/billing/webhook",
  // The specification's path, for a rewrite at the user's own domain.
  "/api/billing/webhook",
]);

/**
 * Reads a delivery from a request.
 *
 * @throws {DeliveryError} `path_unknown`, `method_not_allowed`,
 * `encoding_unsupported`, or what reading the body throws.
 */
export async function readDelivery(
  request: Request,
  limits: BodyLimits,
): Promise<Delivery> {
  const refusal = refuse(request);
  if (refusal !== undefined) {
    await drainBody(request, limits);
    throw refusal;
  }
  return { headers: request.headers, body: await readBody(request, limits) };
}

function refuse(request: Request): DeliveryError | undefined {
  if (!PATHS.has(pathOf(request))) {
    return new DeliveryError(
      "path_unknown",
      "Nothing is served at this path: check the endpoint's URL at the provider",
    );
  }
  if (request.method !== "POST") {
    return new DeliveryError("method_not_allowed", "Only POST is served");
  }
  const encoding = request.headers.get("content-encoding") || "identity";
  if (encoding.toLowerCase() !== "identity") {
    return new DeliveryError(
      "encoding_unsupported",
      "The body is compressed, and nothing unverified is inflated",
    );
  }
  return undefined;
}

/** Empty where the request target is no path at all (`*`). */
function pathOf(request: Request): string {
  try {
    return new URL(request.url).pathname;
  } catch {
    return "";
  }
}
