/**
 * The upper limit for any receiver: a server that verifies a delivery of Stripe with
 * SubtleCrypto, and answers. Without a secret, it only answers.
 */
const encoder = new TextEncoder();
const secret = Deno.env.get("STRIPE_WEBHOOK_SECRET");
const key = secret && await crypto.subtle.importKey(
  "raw",
  encoder.encode(secret),
  { name: "HMAC", hash: "SHA-256" },
  false,
  ["verify"],
);

async function isSigned(headers: Headers, body: Uint8Array): Promise<boolean> {
  const header = headers.get("stripe-signature") ?? "";
  const [, time, hex] = /^t=(\d+),v1=([0-9a-f]{64})$/.exec(header) ?? [];
  if (!(Math.abs(Date.now() / 1000 - Number(time)) < 300)) return false;

  const prefix = encoder.encode(`${time}.`);
  const signed = new Uint8Array(prefix.length + body.length);
  signed.set(prefix);
  signed.set(body, prefix.length);
  const signature = Uint8Array.fromHex(hex);
  return await crypto.subtle.verify("HMAC", key, signature, signed);
}

Deno.serve(async (request) => {
  const body = await request.bytes();
  return !key || await isSigned(request.headers, body)
    ? new Response("OK")
    : new Response("Invalid signature", { status: 401 });
});
