import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { Webhook } from "standardwebhooks";
import Stripe from "stripe";
import { signatureHeaders } from "../../../scripts/common/sign.ts";

const BODY = '{"id":"evt_1","text":"déjà vu €"}';
const BYTES = new TextEncoder().encode(BODY);
const BASE64_SECRET = `whsec_${btoa("a secret of some length")}`;
const NOW = Math.floor(Date.now() / 1000);

Deno.test("signatureHeaders() makes what Stripe's package accepts", async () => {
  const headers = signatureHeaders({
    scheme: "stripe",
    header: "stripe-signature",
    secret: "whsec_1",
    body: BODY,
  });
  assertEquals(Object.keys(headers), ["stripe-signature"]);
  const header = headers["stripe-signature"] ?? "";
  const event = await Stripe.webhooks.constructEventAsync(
    BODY,
    header,
    "whsec_1",
  );
  assertEquals(event.id, "evt_1");
  await assertRejects(() =>
    Stripe.webhooks.constructEventAsync(BODY, header, "whsec_2")
  );
  await assertRejects(() =>
    Stripe.webhooks.constructEventAsync(`${BODY} `, header, "whsec_1")
  );
});

Deno.test("signatureHeaders() makes what the Standard Webhooks package accepts", () => {
  const headers = signatureHeaders({
    scheme: "standard-webhooks",
    header: "webhook-signature",
    secret: BASE64_SECRET,
    body: BODY,
  });
  const webhook = new Webhook(BASE64_SECRET);
  assertEquals(webhook.verify(BODY, headers), JSON.parse(BODY));
  assertThrows(() => webhook.verify(`${BODY} `, headers));
});

Deno.test("signatureHeaders() makes hex HMAC-SHA256 of the body", () => {
  // RFC 4231, test case 2.
  assertEquals(
    signatureHeaders({
      scheme: "hmac-sha256-hex",
      header: "provider-b-signature",
      secret: "Jefe",
      body: "what do ya want for nothing?",
    }),
    {
      "provider-b-signature":
        "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
    },
  );
});

Deno.test("signatureHeaders() shares the header's prefix in Standard Webhooks", () => {
  const headers = signatureHeaders({
    scheme: "standard-webhooks",
    header: "svix-signature",
    secret: BASE64_SECRET,
    body: BODY,
    timestamp: NOW,
    id: "msg_1",
  });
  assertEquals(Object.keys(headers), [
    "svix-id",
    "svix-timestamp",
    "svix-signature",
  ]);
  assertEquals(headers["svix-id"], "msg_1");
  assertEquals(headers["svix-timestamp"], String(NOW));
});

Deno.test("signatureHeaders() signs bytes as it signs their text", () => {
  for (
    const [scheme, secret] of [
      ["stripe", "whsec_1"],
      ["hmac-sha256-hex", "secret"],
      ["standard-webhooks", BASE64_SECRET],
    ] as const
  ) {
    const signing = {
      scheme,
      secret,
      header: "webhook-signature",
      timestamp: NOW,
      id: "msg_1",
    };
    assertEquals(
      signatureHeaders({ ...signing, body: BYTES }),
      signatureHeaders({ ...signing, body: BODY }),
    );
  }
});

Deno.test("signatureHeaders() signs the bytes, not what they decode to", () => {
  const signing = {
    scheme: "stripe",
    header: "stripe-signature",
    secret: "whsec_1",
    timestamp: NOW,
  } as const;
  const one = signatureHeaders({ ...signing, body: Uint8Array.of(0xff) });
  const two = signatureHeaders({ ...signing, body: Uint8Array.of(0xfe) });
  assert(one["stripe-signature"] !== two["stripe-signature"]);
});

Deno.test("signatureHeaders() says which secrets and headers fit Standard Webhooks", () => {
  const signing = { scheme: "standard-webhooks", body: BODY } as const;
  const header = "webhook-signature";
  for (const secret of ["not base64!", "whsec_", "whsec_abc", "whsec_a=bc"]) {
    assertThrows(
      () => signatureHeaders({ ...signing, header, secret }),
      Error,
      "Cannot sign: the secret",
    );
  }
  assertThrows(
    () =>
      signatureHeaders({
        ...signing,
        header: "provider-sig",
        secret: BASE64_SECRET,
      }),
    Error,
    "must end with -signature",
  );
});
