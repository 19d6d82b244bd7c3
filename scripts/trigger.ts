/**
 * `deno task trigger`: signs an event as a provider does, and sends it.
 * Standard output has the answer only, or with `--print` the event.
 *
 * @module
 */
import { reportEnd } from "./common/cli.ts";
import { functionEnvironment, readEnvFile } from "./common/environment.ts";
import { asTyped } from "./common/how_started.ts";
import { isLoopback, LOCAL_WEBHOOK_URL } from "./common/loopback.ts";
import { print, printError } from "./common/print.ts";
import { providerSettings } from "./common/provider_settings.ts";
import { findRunningStack } from "./common/running_stack.ts";
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
import { projectOf } from "./trigger/project_of.ts";
import {
  readLedger,
  readResult,
  type Result,
  type SentEvent,
} from "./trigger/read_result.ts";
import { sentEvent } from "./trigger/sent_event.ts";

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
  const { body, title, event } = "payload" in source
    ? await payloadBody(source.payload, provider)
    : await eventBody(source, sent);
  if (sent.print) {
    print(...String(body).split("\n"));
    return 0;
  }
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

  const { lines, errorCode }: Result = before
    ? await readResult(project, event, { status: reply.status, ...before })
      .catch((error) => ({ lines: [`Cannot read the row: ${error.message}`] }))
    : { lines: [] };
  printError(...lines);
  const next = advice({ ...reply, errorCode }, {
    ...sent,
    ...(url === defaultUrl && { url: undefined }),
  });
  if (next !== null) printError(next);
  return reply.status >= 200 && reply.status < 300 ? 0 : 1;
}

async function eventBody(
  source: EventArguments,
  { provider, print }: Pick<TriggerArguments, "provider" | "print">,
): Promise<{ body: string; title: string; event: SentEvent }> {
  if (source.created === undefined && !print) {
    await new Promise((resolve) =>
      setTimeout(resolve, waitBeforeMs(source.type, Date.now()))
    );
  }
  const created = Math.floor(Date.now() / 1000);
  const event = buildEvent(source, { provider, created });
  const { id, type } = event;
  const { subscription = defaultSubscription(provider) } = source;
  const about = type.startsWith("payment_intent")
    ? ""
    : ` about ${subscription}`;
  return {
    // Indented, as Stripe sends it.
    body: JSON.stringify(event, null, 2),
    title: `${type} ${id}${about}`,
    event: { provider, id, type, subscription },
  };
}

async function payloadBody(file: string, provider: string) {
  const body = await readPayload(file);
  return { body, title: file, event: await sentEvent(body, provider) };
}

async function readPayload(file: string): Promise<Uint8Array<ArrayBuffer>> {
  try {
    return await Deno.readFile(file);
  } catch (error) {
    throw new Error(`Cannot read ${file}: ${(error as Error).message}`);
  }
}
