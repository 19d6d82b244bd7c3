import { setTimeout as sleep } from "node:timers/promises";
import { print, printError, reportEnd } from "./common/cli.ts";
import { asTyped } from "./common/environment.ts";
import { isLoopback, LOCAL_PROJECT_URL } from "./common/loopback.ts";
import { lookAround } from "./common/option_values.ts";
import { providerSettings, signatureHeaders } from "./common/sign.ts";
import { type ProjectAccess, sendRequest } from "./common/project_api.ts";
import { FORMATS } from "../supabase/functions/_shared/billing/events/formats.ts";
import { kindOf } from "../supabase/functions/_shared/billing/events/format.ts";
import {
  buildEvent,
  parseTriggerArguments,
  type TriggerArguments,
} from "./trigger/arguments.ts";
import { advice } from "./trigger/advice.ts";
import * as results from "./trigger/result.ts";
import { isChange } from "./trigger/stated_event.ts";

if (import.meta.main) Deno.exit(await trigger(Deno.args).catch(reportEnd));

async function trigger(args: readonly string[]): Promise<number> {
  const here = await lookAround();
  const { env, local } = here;
  const sent = parseTriggerArguments(args, env);
  const { provider, format, source } = sent;

  const projectUrl = local?.apiUrl ?? LOCAL_PROJECT_URL;
  const url = sent.url ?? `${projectUrl}/functions/v1/billing-webhook`;
  const settings = providerSettings(env, provider, format);
  const project = results.projectOf(url, here);
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
  const event = await results.sentEvent(body, { provider, format, deliveryId });
  const wasApplied = project && await results.readLedger(project, event)
    .then((outcome) => outcome !== undefined, () => undefined);

  const about = event.subscription && ` about ${event.subscription}`;
  const title = "payload" in source
    ? source.payload
    : `${event.type} ${event.id}${about}`;
  const signed = `signed as provider ${provider} (${settings.scheme})`;
  printError(`Sending ${title}, ${signed}, to ${url}`);

  const reply = await sendRequest(url, { method: "POST", headers, body });
  if ("fault" in reply) {
    const isNotStarted = isLoopback(url) && /refused/i.test(reply.fault);
    const reason = isNotStarted
      ? `is the local stack running? Start it with: ${asTyped("start")}`
      : reply.fault;
    throw new Error(`Cannot reach ${url}: ${reason}`);
  }
  print(...`${reply.status} ${reply.body}`.trimEnd().split(/\r?\n/));

  const { status } = reply;
  const { lines, ...result }: results.Result =
    project && wasApplied !== undefined
      ? await results.readResult(project, event, { status, wasApplied })
        .catch((error) => ({
          lines: [`Cannot read the row: ${error.message}`],
        }))
      : { lines: [] };
  printError(...lines, ...advice({ status, ...result }, sent));
  return status >= 200 && status < 300 ? 0 : 1;
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
    // Within a second, a creation counts as older than a deletion. In the next one,
    // a creation that follows a deletion is a new start.
    await sleep(1000 - Date.now() % 1000);
  }
  if (project === undefined) return write({});

  // If the database cannot be read, the answer to the event will say why.
  const event = await results.sentEvent(write({}), { provider, format });
  if (isChange(format, source.type)) {
    const record = await results.readRecord(project, event)
      .catch(() => undefined);
    return write({ record });
  }
  // A creation must be older than the events that wait for it.
  const created = isCreation && !print
    ? await results.createdBefore(project, event).catch(() => undefined)
    : undefined;
  return write({ created });
}
