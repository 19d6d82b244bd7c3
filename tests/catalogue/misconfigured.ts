import { assert } from "@std/assert";
import { startReceiver } from "../support/receiver.ts";
import { assertDiscreet } from "./outcome.ts";
import { refused } from "./signature_checks.ts";
import { headersOf } from "./signature.ts";
import { hexEndpoint, type Stage, stripeEndpoint } from "./stage.ts";

/**
 * Starts a receiver with those secrets. It says at its start what is wrong with
 * them, by their names, and refuses whatever is signed, with them or with
 * nothing.
 *
 * @param secrets Of provider A and of provider B; undefined for one not set.
 * @param options.says In what it logs.
 * @param options.env What is set besides.
 */
export async function misconfigured(
  stage: Stage,
  [a, b]: [a: string | undefined, b: string | undefined],
  { says, env = {} }: { says: string; env?: Readonly<Record<string, string>> },
): Promise<void> {
  const A = "PROVIDER_A_SIGNING_SECRET";
  const B = "PROVIDER_B_SIGNING_SECRET";
  await using receiver = await startReceiver({
    env: { ...env, [A]: a ?? "", [B]: b ?? "" },
    unset: [...(a === undefined ? [A] : []), ...(b === undefined ? [B] : [])],
  });
  for (
    const [endpoint, name, configured = ""] of [
      [stripeEndpoint(receiver), A, a],
      [hexEndpoint(receiver), B, b],
    ] as const
  ) {
    const atStart = await receiver.logged((line) =>
      line.provider === endpoint.provider && line.level === "warn"
    );
    for (const text of [name, says]) {
      assert(String(atStart.error).includes(text), `${atStart.error}`);
    }
    const parts = configured.split(",");
    const secrets = [configured, configured.trim(), ...parts, ""];
    for (const secret of new Set(secrets)) {
      await refused(stage, { ...endpoint, secret }, {
        headers: (parts) => headersOf(endpoint, parts),
        is: { status: 500, code: "provider_misconfigured" },
      });
      const isTelling = secret.trim().length > 6;
      assert(!isTelling || !receiver.output().includes(secret), "repeated");
    }
  }
  assertDiscreet(receiver.output());
}
