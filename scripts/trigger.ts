/**
 * `deno task trigger`: signs an event as a provider does, and sends it.
 * Standard output has the answer only, or with `--print` the event.
 *
 * @module
 */
import { setTimeout as sleep } from "node:timers/promises";
import { reportEnd } from "./common/cli.ts";
import { functionEnvironment, readEnvFile } from "./common/environment.ts";
import { asTyped } from "./common/how_started.ts";
import { isLoopback, LOCAL_WEBHOOK_URL } from "./common/loopback.ts";
import { print, printError, wrap } from "./common/print.ts";
import {
  type ProviderName,
  providerSettings,
  signatureHeaders,
} from "./common/sign.ts";
import { findRunningStack } from "./common/running_stack.ts";
import { sendRequest } from "./common/requests.ts";
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
import {
  MAX_COLUMNS,
  projectOf,
  readLedger,
  readResult,
  type Result,
  type SentEvent,
  sentEvent,
} from "./trigger/result.ts";

if (import.meta.main) {
  Deno.exit(await trigger(Deno.args).catch(reportEnd));
}

async function trigger(args: readonly string[]): Promise<number> {
  const command = Deno.env.toObject();
  const local = await findRunningStack(command);
  const defaultUrl = local?.webhookUrl ?? LOCAL_WEBHOOK_URL;
  const sent = parseTriggerArguments(args, defaultUrl);
  const { provider, url, source } = sent;
  const env = functionEnvironment(command, await readEnvFile());
  const settings = providerSettings(env, provider);
  const body = "payload" in source
    ? await readPayload(source.payload)
    : await eventBody(source, sent);
  if (sent.print) {
    print(...new TextDecoder().decode(body).split("\n"));
    return 0;
  }
  const event = await sentEvent(body, provider);
  const headers = {
    "content-type": "application/json; charset=utf-8",
    ...signatureHeaders({ ...settings, body }),
  };

  const project = projectOf(url, { local, env: command });
  const before = project && await readLedger(project, event)
    .then(
      (outcome) => ({ wasApplied: outcome !== undefined }),
      () => undefined,
    );
  const title = "payload" in source
    ? source.payload
    : titleOf(event, source, provider);
  const signed = `signed as provider ${provider} (${settings.scheme})`;
  printError(...wrap(`Sending ${title}, ${signed}, to ${url}`, MAX_COLUMNS));
  const reply = await sendRequest(url, { method: "POST", headers, body });
  if ("fault" in reply) {
    const isNotStarted = isLoopback(url) && /refused/i.test(reply.fault);
    const reason = isNotStarted
      ? `is the local stack running? Start it with: ${asTyped("start")}`
      : reply.fault;
    throw new Error(`Cannot reach ${url}: ${reason}`);
  }
  print(...`${reply.status} ${reply.body}`.trimEnd().split(/\r?\n/));

  const { lines, errorCode }: Result = before
    ? await readResult(project, event, { status: reply.status, ...before })
      .catch((error) => ({ lines: [`Cannot read the row: ${error.message}`] }))
    : { lines: [] };
  printError(...lines);
  printError(...advice({ ...reply, errorCode }, {
    ...sent,
    ...(url === defaultUrl && { url: undefined }),
  }));
  return reply.status >= 200 && reply.status < 300 ? 0 : 1;
}

async function readPayload(file: string): Promise<Uint8Array<ArrayBuffer>> {
  return await Deno.readFile(file).catch((error) => {
    throw new Error(`Cannot read ${file}: ${error.message}`);
  });
}

async function eventBody(
  source: EventArguments,
  { provider, print }: TriggerArguments,
): Promise<Uint8Array<ArrayBuffer>> {
  if (!print) await sleep(waitBeforeMs(source.type, Date.now()));
  // Indented, as Stripe sends it.
  const text = JSON.stringify(buildEvent(source, provider), null, 2);
  return new TextEncoder().encode(text);
}

function titleOf(
  { type, id }: SentEvent,
  { subscription }: EventArguments,
  provider: ProviderName,
): string {
  const isUnrelated = type === "payment_intent.payment_failed";
  const about = subscription ?? defaultSubscription(provider);
  return `${type} ${id}${isUnrelated ? "" : ` about ${about}`}`;
}
