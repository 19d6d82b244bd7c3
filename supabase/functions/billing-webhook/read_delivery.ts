import { DeliveryError, type ErrorCode } from "../_shared/billing/errors.ts";
import { type BodyLimits, discard, readBody } from "./read_body.ts";

/** A request to this endpoint. Nothing about it is verified yet. */
export type Delivery = Readonly<{
  headers: Headers;
  body: Uint8Array<ArrayBuffer>;
}>;

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
 * Reads a request, or discards the body of one that it refuses.
 *
 * @throws {DeliveryError} `path_unknown`, `method_not_allowed`, `encoding_unsupported`, or
 * an error of {@linkcode readBody}.
 */
export async function readDelivery(
  request: Request,
  limits: BodyLimits,
): Promise<Delivery> {
  const refusal = refusalOf(request);
  if (refusal !== undefined) {
    await discard(request.body?.getReader(), limits);
    throw new DeliveryError(refusal);
  }
  return { headers: request.headers, body: await readBody(request, limits) };
}

function refusalOf(request: Request): ErrorCode | undefined {
  if (!PATHS.has(pathOf(request))) return "path_unknown";
  if (request.method !== "POST") return "method_not_allowed";
  const encoding = request.headers.get("content-encoding") || "identity";
  return encoding.toLowerCase() === "identity"
    ? undefined
    : "encoding_unsupported";
}

/** Returns the path without a slash at its end; empty if the target is `*`. */
function pathOf(request: Request): string {
  try {
    return new URL(request.url).pathname.replace(/\/$/, "");
  } catch {
    return "";
  }
}
