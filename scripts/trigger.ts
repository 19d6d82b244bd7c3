/**
 * `deno task trigger`: signs an event as a provider does, and sends it.
 * Standard output has the answer only, or with `--print` the event.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { reportEnd } from "./common/cli.ts";
import { functionEnvironment, readEnvFile } from "./common/environment.ts";
import { asTyped } from "./common/how_started.ts";
import { isLoopback, LOCAL_WEBHOOK_URL } from "./common/loopback.ts";
import { print, printError, wrap } from "./common/print.ts";
import { providerSettings, signatureHeaders } from "./common/sign.ts";
import { findRunningStack } from "./common/running_stack.ts";
import type { ProjectAccess } from "./common/project_api.ts";
import { sendRequest } from "./common/requests.ts";
import { FORMATS } from "../supabase/functions/_shared/billing/events/formats.ts";
import { kindOf } from "../supabase/functions/_shared/billing/events/format.ts";
import { advice } from "./trigger/advice.ts";
import {
  buildEvent,
  parseTriggerArguments,
  type TriggerArguments,
} from "./trigger/arguments.ts";
import {
  createdBefore,
  MAX_COLUMNS,
  projectOf,
  readLedger,
  readRecord,
  readResult,
  type Result,
  sentEvent,
} from "./trigger/result.ts";
import { isChange } from "./trigger/stated_event.ts";

if (import.meta.main) Deno.exit(await trigger(Deno.args).catch(reportEnd));

async function trigger(args: readonly string[]): Promise<number> {
  const command = Deno.env.toObject();
  const local = await findRunningStack(command);
  const env = functionEnvironment(command, await readEnvFile());
  const sent = parseTriggerArguments(args, env);
  const { provider, format, source } = sent;

  const url = sent.url ?? local?.webhookUrl ?? LOCAL_WEBHOOK_URL;
  const settings = providerSettings(env, provider, format);
  const project = projectOf(url, { local, env: command });
  const body = await bodyOf(sent, project);
  if (sent.print) {
    print(...new TextDecoder().decode(body).split("\n"));
    return 0;
  }

  const id = "type" in source && format !== "stripe" ? source.event : undefined;
  const headers: Record<string, string> = {
    "content-type": "application/json; charset=utf-8",
    ...signatureHeaders({ ...settings, body, ...(id && { id }) }),
  };
  const deliveryId = headers["webhook-id"];
  const event = await sentEvent(body, { provider, format, deliveryId });
  const wasApplied = project && await readLedger(project, event)
    .then((outcome) => outcome !== undefined, () => undefined);

  const about = event.subscription && ` about ${event.subscription}`;
  const title = "payload" in source
    ? source.payload
    : `${event.type} ${event.id}${about}`;
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

  const { lines, ...known }: Result = project && wasApplied !== undefined
    ? await readResult(project, event, { status: reply.status, wasApplied })
      .catch((error) => ({ lines: [`Cannot read the row: ${error.message}`] }))
    : { lines: [] };
  printError(...lines, ...advice({ ...reply, ...known }, sent));
  return reply.status >= 200 && reply.status < 300 ? 0 : 1;
}

async function bodyOf(
  { source, provider, format, print }: TriggerArguments,
  project: ProjectAccess | undefined,
): Promise<Uint8Array<ArrayBuffer>> {
  if ("payload" in source) {
    return await Deno.readFile(source.payload).catch((error) => {
      throw new Error(`Cannot read ${source.payload}: ${error.message}`);
    });
  }
  // Indented, as Stripe sends it.
  const write = (more: Parameters<typeof buildEvent>[1]) =>
    new TextEncoder().encode(
      JSON.stringify(buildEvent(source, { format, ...more }), null, 2),
    );

  const isCreation = kindOf(FORMATS[format], source.type) === "creation";
  if (isCreation && !print) {
    // Within one second, a creation counts as older than a deletion. If it is sent
    // after the deletion, it is meant as a new start.
    await sleep(1000 - Date.now() % 1000);
  }
  if (project === undefined) return write({});

  // If the database cannot be read, sending the event says why.
  const known = { provider, format, deliveryId: undefined };
  const about = await sentEvent(write({}), known);
  if (isChange(format, source.type)) {
    const record = await readRecord(project, about).catch(() => undefined);
    return write({ record });
  }
  // An event that waits for its creation occurred after it.
  const created = isCreation && !print
    ? await createdBefore(project, about).catch(() => undefined)
    : undefined;
  return write({ created });
}
