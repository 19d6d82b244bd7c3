/**
 * The verifier agrees with Stripe's package, the Standard Webhooks package and
 * Node's HMAC on any delivery, except for the list of intended differences.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import {
  DeliveryError,
  ERRORS,
} from "../../supabase/functions/_shared/billing/errors.ts";
import {
  readProviders,
  type SignatureProvider,
} from "../../supabase/functions/billing-webhook/providers.ts";
import { verifyDelivery } from "../../supabase/functions/billing-webhook/verify_delivery.ts";
import type { TestedScheme } from "../support/sign.ts";
import { caseCount, diceOf, freshSeed } from "../support/random.ts";
import { STRICTER } from "./intended_differences.ts";
import { isAcceptedByReference } from "./reference.ts";
import { isFaulty } from "./secrets.ts";
import { makeCase, NOW, type VerifierCase } from "./verifier_case.ts";

const CASES = caseCount(15_000);
const SCHEMES = ["stripe", "hmac-sha256-hex", "standard-webhooks"] as const;
const configured = new Map<string, readonly SignatureProvider[]>();

for (const scheme of SCHEMES) {
  Deno.test(`verifyDelivery() agrees with the reference for ${scheme}, except for the intended differences`, async () => {
    const seed = freshSeed();
    const cases = Math.ceil(CASES / SCHEMES.length);
    // The Standard Webhooks package takes no clock.
    const clock = Date.now;
    Date.now = () => NOW * 1_000;
    try {
      const counts = await compare(scheme, { seed, cases });
      const { accepted, ...differences } = counts;
      console.log(
        `${cases} cases of ${scheme}, seed ${seed}: ${accepted} accepted; ` +
          "refused though the reference accepts: " +
          Object.entries(differences).map(([name, n]) => `${n} ${name}`)
            .join(", "),
      );
      assert(accepted! > cases / 10, `Only ${accepted} were accepted`);
      if (cases < 5_000) return;
      const unseen = STRICTER[scheme].filter(({ name }) => !differences[name]);
      assertEquals(unseen.map(({ name }) => name), [], "Intended, never met");
    } finally {
      Date.now = clock;
    }
  });
}

/** @returns how many were accepted, and how many differed for which reason */
async function compare(
  scheme: TestedScheme,
  { seed, cases }: { seed: number; cases: number },
): Promise<Record<string, number>> {
  const counts: Record<string, number> = { accepted: 0 };
  for (let number = 0; number < cases; number++) {
    const delivery = makeCase(scheme, diceOf(seed + number));
    const byReference = await isAcceptedByReference(delivery);
    const stricter = STRICTER[scheme]
      .filter(({ refuses }) => refuses(delivery));
    const expected = byReference && stricter.length === 0;
    const verdict = await verdictOn(delivery);
    if (verdict !== (expected ? "accepted" : "refused")) {
      throw new Error(
        `Case ${number} of seed ${seed} is ${verdict}; the reference ${
          byReference ? "accepts" : "refuses"
        } it, and these intend to refuse: [${
          stricter.map(({ name }) => name)
        }]\n${
          Deno.inspect(shown(delivery), { depth: 4, strAbbreviateSize: 9e3 })
        }`,
      );
    }
    if (expected) counts.accepted!++;
    if (!byReference) continue;
    for (const { name } of stricter) counts[name] = (counts[name] ?? 0) + 1;
  }
  return counts;
}

async function verdictOn(delivery: VerifierCase): Promise<string> {
  const { scheme, headers, body } = delivery;
  const providers = await providersOf(delivery);
  try {
    const options = { providers, nowSeconds: NOW + 0.5, toleranceSeconds: 300 };
    const verified = await verifyDelivery({ headers, body }, options);
    assertEquals(verified.provider, scheme === "hmac-sha256-hex" ? "b" : "a");
    assert(verified.body === body, "It is another body");
    return "accepted";
  } catch (error) {
    if (!(error instanceof DeliveryError)) throw error;
    const { status } = ERRORS[error.code];
    assert(status === 401 || status === 500 && delivery.secrets.some(isFaulty));
    return "refused";
  }
}

/** Reads a configuration once, as the function does at its start. */
async function providersOf(
  { scheme, secrets }: VerifierCase,
): Promise<readonly SignatureProvider[]> {
  const env = scheme === "hmac-sha256-hex"
    ? {
      PROVIDER_A_SIGNING_SECRET: "whsec_another-secret-of-a",
      PROVIDER_B_SIGNING_SECRET: secrets.join(),
    }
    : {
      PROVIDER_A_SIGNING_SECRET: secrets.join(),
      PROVIDER_A_SIGNATURE_SCHEME: scheme,
      PROVIDER_B_SIGNING_SECRET: "another-secret-of-b",
    };
  const key = JSON.stringify(env);
  const providers = configured.get(key) ?? await readProviders(env);
  configured.set(key, providers);
  return providers;
}

function shown({ headers, body, secrets }: VerifierCase) {
  return { secrets, headers: Object.fromEntries(headers), body: [...body] };
}
