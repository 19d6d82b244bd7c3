/**
 * `deno task trigger`: the provider's stand-in. Standard output has the answer
 * and nothing else.
 */
import { print, printError } from "./common/print.ts";
import {
  type EventArguments,
  parseArguments,
  type TriggerArguments,
} from "./trigger/arguments.ts";
import { advice } from "./trigger/advice.ts";
import { buildEvent, defaultSubscription } from "./trigger/build_event.ts";
import { millisecondsToWait } from "./trigger/occurred_at.ts";
import { UsageError } from "./common/checked.ts";
import { providerSettings } from "./common/provider_settings.ts";
import { send } from "./trigger/send.ts";
import { signatureHeaders } from "./common/sign.ts";
import { USAGE } from "./trigger/usage.ts";
import { functionEnvironment, readEnvFile } from "./common/environment.ts";

if (import.meta.main) Deno.exit(await main(Deno.args));

async function main(args: string[]): Promise<number> {
  try {
    const parsed = parseArguments(args);
    if (parsed === null) {
      console.log(USAGE);
      return 0;
    }
    return await trigger(parsed);
  } catch (error) {
    const { message } = error as Error;
    const wrongUsage = error instanceof UsageError;
    printError(message);
    if (wrongUsage) console.error(`\n${USAGE}`);
    return wrongUsage ? 2 : 1;
  }
}

async function trigger(
  { provider, url, what }: TriggerArguments,
): Promise<number> {
  const env = functionEnvironment(Deno.env.toObject(), await readEnvFile());
  const settings = providerSettings(env, provider);
  const { body, title } = "payload" in what
    ? { body: await readPayload(what.payload), title: what.payload }
    : await eventBody(what, provider);
  const headers = await signatureHeaders({ ...settings, body });

  printError(
    `Sending ${title}, signed by provider ${provider} (${settings.scheme}), to ${url}`,
  );
  const answer = await send(url, { headers, body });
  print(...`${answer.status} ${answer.body}`.trimEnd().split(/\r?\n/));

  const next = advice(answer, { provider, url, what });
  if (next !== null) printError(next);
  return answer.status >= 200 && answer.status < 300 ? 0 : 1;
}

async function eventBody(
  what: EventArguments,
  provider: TriggerArguments["provider"],
): Promise<{ body: string; title: string }> {
  if (what.created === undefined) {
    const wait = millisecondsToWait(what.type, Date.now());
    await new Promise((resolve) => setTimeout(resolve, wait));
  }
  const created = Math.floor(Date.now() / 1000);
  const event = buildEvent(what, { provider, created });
  const about = event.type.startsWith("payment_intent")
    ? ""
    : ` about ${what.subscription ?? defaultSubscription(provider)}`;
  return {
    // Indented, as Stripe sends it.
    body: JSON.stringify(event, null, 2),
    title: `${event.type} ${event.id}${about}`,
  };
}

async function readPayload(file: string): Promise<Uint8Array<ArrayBuffer>> {
  try {
    return await Deno.readFile(file);
  } catch (error) {
    throw new Error(`Cannot read ${file}: ${(error as Error).message}`);
  }
}
