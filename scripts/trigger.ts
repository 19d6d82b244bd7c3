/**
 * `deno task trigger`: signs an event as a provider does, and sends it.
 * Standard output has the answer only.
 *
 * @module
 */
import { reportEnd } from "./common/cli.ts";
import { functionEnvironment, readEnvFile } from "./common/environment.ts";
import { asTyped } from "./common/how_started.ts";
import { isLoopback } from "./common/loopback.ts";
import { print, printError } from "./common/print.ts";
import { providerSettings } from "./common/provider_settings.ts";
import { sendRequest } from "./common/send_request.ts";
import { signatureHeaders } from "./common/sign.ts";
import { advice } from "./trigger/advice.ts";
import {
  type EventArguments,
  parseTriggerArguments,
  type TriggerArguments,
} from "./trigger/arguments.ts";
import {
  buildEvent,
  defaultSubscription,
  waitBeforeMs,
} from "./trigger/build_event.ts";

if (import.meta.main) {
  Deno.exit(await trigger(Deno.args).catch(reportEnd));
}

async function trigger(args: readonly string[]): Promise<number> {
  const sent = parseTriggerArguments(args);
  const { provider, url, what } = sent;
  const env = functionEnvironment(Deno.env.toObject(), await readEnvFile());
  const settings = providerSettings(env, provider);
  const { body, title } = "payload" in what
    ? { body: await readPayload(what.payload), title: what.payload }
    : await eventBody(what, provider);
  const headers = {
    "content-type": "application/json; charset=utf-8",
    ...signatureHeaders({ ...settings, body }),
  };

  printError(
    `Sending ${title}, signed as provider ${provider} (${settings.scheme}), to ${url}`,
  );
  const reply = await sendRequest(url, { method: "POST", headers, body });
  if ("fault" in reply) {
    const isNotStarted = isLoopback(url) && /refused/i.test(reply.fault);
    const reason = isNotStarted
      ? `is the local stack running? Start it with: ${asTyped("start")}`
      : reply.fault;
    throw new Error(`Cannot reach ${url}: ${reason}`);
  }
  print(...`${reply.status} ${reply.body}`.trimEnd().split(/\r?\n/));

  const next = advice(reply, sent);
  if (next !== null) printError(next);
  return reply.status >= 200 && reply.status < 300 ? 0 : 1;
}

async function eventBody(
  what: EventArguments,
  provider: TriggerArguments["provider"],
): Promise<{ body: string; title: string }> {
  if (what.created === undefined) {
    await new Promise((resolve) =>
      setTimeout(resolve, waitBeforeMs(what.type, Date.now()))
    );
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
