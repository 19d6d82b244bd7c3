/**
 * The steps of SECURITY.md that rotate the secrets of both providers: at each of
 * them, with the processes that may serve and the signatures that may come then.
 *
 * @module
 */
import { assertEquals } from "@std/assert";
import Stripe from "stripe";
import { subscriptionEvent } from "../../scripts/events/subscription_event.ts";
import { startReceiver } from "../support/functions.ts";
import { post } from "../support/send.ts";
import { hmacHex } from "../support/sign.ts";
import { connect, storedEvent } from "../support/tables.ts";

const OLD = "old_0123456789";
const NEW = "new_0123456789";
const PAGE = new URL("../../SECURITY.md", import.meta.url);

type Configured = "old" | "both" | "new";

/** What is configured, and which secrets A and B sign with. */
const STEPS: [heading: string, Configured[], a: string[][], b: string[]][] = [
  ["1. Make the new secret", ["old"], [[OLD], [OLD, NEW]], [OLD]],
  // Until the old processes have ended.
  ["2. Configure both", ["old", "both"], [[OLD, NEW], [NEW, OLD]], [OLD]],
  [
    "3. Let the provider change over",
    ["both"],
    [[OLD, NEW], [NEW, OLD], [NEW]],
    [OLD, NEW],
  ],
  ["4. Configure the new one alone", ["both", "new"], [[NEW]], [NEW]],
];

const sql = connect();
const receivers = {
  old: await startReceiver({ env: secretsOf(OLD) }),
  both: await startReceiver({ env: secretsOf(NEW, OLD) }),
  new: await startReceiver({ env: secretsOf(NEW) }),
};
Deno.test.afterAll(async () => {
  for (const receiver of Object.values(receivers)) {
    await receiver[Symbol.asyncDispose]();
  }
  await sql.end();
});

function secretsOf(...secrets: string[]) {
  return {
    PROVIDER_A_SIGNING_SECRET: secrets.map((secret) => `a_${secret}`).join(),
    PROVIDER_B_SIGNING_SECRET: secrets.map((secret) => `b_${secret}`).join(),
  };
}

/** The header of A, which signs with all of the secrets, like Stripe. */
async function signedByA(body: string, secrets: readonly string[]) {
  const timestamp = Math.floor(Date.now() / 1000);
  const [first = "", ...others] = await Promise.all(
    secrets.map((secret) =>
      Stripe.webhooks.generateTestHeaderStringAsync({
        payload: body,
        secret: `a_${secret}`,
        timestamp,
      })
    ),
  );
  return first + others.map((header) => header.replace(/^t=\d+/, "")).join("");
}

/** Delivers an event as A and another one as B, and says what came of them. */
async function deliverBoth(
  configured: Configured,
  { a, b }: { a: readonly string[]; b: string },
) {
  const came = [];
  for (const provider of ["a", "b"]) {
    const event = subscriptionEvent("customer.subscription.created");
    const body = JSON.stringify(event);
    const signature = provider === "a"
      ? await signedByA(body, a)
      : hmacHex(`b_${b}`, body);
    const headers = { [`provider-${provider}-signature`]: signature };
    const { url } = receivers[configured];
    const { status } = await post(url, { headers, body });
    const { ledger, failures } = await storedEvent(sql, event.id);
    came.push([status, ledger.length, failures.length]);
  }
  return came;
}

Deno.test("a secret is rotated by the steps of SECURITY.md, and no delivery is refused", async () => {
  const page = await Deno.readTextFile(PAGE);
  const headings = [...page.matchAll(/^### (\d.*)$/gm)].map(([, text]) => text);
  assertEquals(headings, STEPS.map(([heading]) => heading));
  for (const [heading, processes, signaturesOfA, secretsOfB] of STEPS) {
    for (const configured of processes) {
      for (const [i, a] of signaturesOfA.entries()) {
        const b = secretsOfB[i % secretsOfB.length]!;
        const came = await deliverBoth(configured, { a, b });
        assertEquals(
          came,
          [[200, 1, 0], [200, 1, 0]],
          `${heading} (${configured})`,
        );
      }
    }
  }
});

Deno.test("the new secret alone refuses deliveries until the provider signs with it, and stores nothing", async () => {
  const came = await deliverBoth("new", { a: [OLD], b: OLD });
  assertEquals(came, [[401, 0, 0], [401, 0, 0]]);
});
