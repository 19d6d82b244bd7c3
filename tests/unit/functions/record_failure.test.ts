import { assertEquals } from "@std/assert";
import { createHash } from "node:crypto";
import {
  describeFailedBody,
  recordFailure,
} from "../../../supabase/functions/_shared/billing/database/record_failure.ts";
import { DeliveryError } from "../../../supabase/functions/_shared/billing/errors.ts";
import { stripe } from "../../../supabase/functions/_shared/billing/events/stripe.ts";
import { codeOf, fakeDatabase, refusal } from "./fixtures.ts";

const bytes = (text: string) => new TextEncoder().encode(text);
const STRIPE = { format: stripe, derivedId: undefined };

const BODIES: Record<string, (string | Uint8Array<ArrayBuffer>)[]> = {
  evt_1: [
    '{ "id":"evt_1", "type":"invoice.paid", "n":1e400 }',
    '{"id":"evt_1","type":"a\\n","a":"\\u0000\\ud800"}',
  ],
  "sha256:": [
    "",
    '{"id":"evt_1"',
    "null",
    '{"id":" "}',
    "Grüße \u{1f600}",
    // What Postgres cannot hold as text.
    Uint8Array.of(0xff, 0, 1),
    bytes('{"id":"evt_1","a":"x\0"}'),
  ],
};
Deno.test("describeFailedBody() files a body under its id or hash, and loses no byte", async () => {
  for (const [id, bodies] of Object.entries(BODIES)) {
    for (const body of bodies) {
      const isText = typeof body === "string";
      const sent = isText ? bytes(body) : body;
      const { event: _, ...failed } = await describeFailedBody(sent, STRIPE);

      const bodyHash = createHash("sha256").update(sent).digest("hex");
      assertEquals(failed, {
        eventId: id === "evt_1" ? id : id + bodyHash,
        bodyHash,
        encoding: isText ? "text" : "base64",
        body: isText ? body : body.toBase64(),
      });
    }
  }
});

const FILED = '{"id":"evt_1","type":"invoice.payment_failed"}';
async function file(answer: Response) {
  const { database } = fakeDatabase((_name, body) => {
    assertEquals<unknown>(body, {
      failure: {
        provider: "a",
        event_id: "evt_1",
        body: FILED,
        body_encoding: "text",
        error_code: "event_invalid",
        error: "Says why",
        type: "invoice.payment_failed",
        kind: "payment_failed",
      },
    });
    return answer;
  });
  const failed = await describeFailedBody(bytes(FILED), STRIPE);
  const error = new DeliveryError("event_invalid", "Says why", {
    logMessage: "Does not",
  });
  return await recordFailure(error, { provider: "a", failed, database });
}
Deno.test("recordFailure() files the error, and takes no garbage for an answer", async () => {
  for (const answer of ["stored", "retry", "applied", "erased"]) {
    assertEquals(await file(Response.json(answer)), answer);
  }
  for (const garbage of ['"other"', "true", "<html>"]) {
    assertEquals(
      await codeOf(file(new Response(garbage))),
      "database_unavailable",
      garbage,
    );
  }
  assertEquals(await codeOf(file(refusal("PGRST202"))), "deployment_fault");
});
