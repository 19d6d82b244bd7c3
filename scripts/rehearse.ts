/**
 * `deno task rehearse`: the life of a subscription in a sandbox of Stripe's. The result
 * goes to standard output, progress to standard error.
 */
import type Stripe from "stripe";
import { abortOnEnd } from "./common/abort_on_end.ts";
import {
  type CommandLine,
  parseCommandLine,
  UsageError,
} from "./common/cli.ts";
import { asTyped } from "./common/how_started.ts";
import { isLoopback } from "./common/loopback.ts";
import { safeUrl, type Surroundings } from "./common/option_values.ts";
import { print, printError } from "./common/print.ts";
import { openApi } from "./common/project_api.ts";
import { sendRequest } from "./common/requests.ts";
import {
  type Context,
  PLACE_OPTIONS,
  readTarget,
  runCommand,
} from "./stripe_sync/command.ts";
import { openLife } from "./stripe_sync/life.ts";
import { reasons } from "./stripe_sync/reasons.ts";
import { rehearse, rowsOf, type StepResult } from "./stripe_sync/rehearsal.ts";
import { retry } from "./stripe_sync/retry.ts";
import { openStripe } from "./stripe_sync/stripe_source.ts";

const DEFAULT_SECONDS = 60;
const INTERRUPTED = 130;
const FAILED = 3;

const COMMAND_LINE = {
  usage: "rehearse",
  summary:
    `Makes a subscription in your Stripe sandbox, changes it step by step, and shows
what your project makes of each step. Deletes what it has made at Stripe, also
after Ctrl-C. It was never run against Stripe itself: please report its output.`,
  options: {
    "--url URL":
      "the endpoint, as registered at Stripe (default: the project's)",
    "--account ID":
      "an account without rows, if your app needs one that exists (default: a new ID)",
    "--wait SECONDS": `how long a step may take (default: ${DEFAULT_SECONDS})`,
    "--json": "print one JSON document, for a report",
    ...PLACE_OPTIONS,
  },
  environment: {
    SUPABASE_SECRET_KEY:
      "sb_secret_... (default for a local project: the local stack's).",
    STRIPE_API_KEY:
      "sk_test_... or rk_test_..., of a sandbox. A restricted key (rk_) needs permission to write customers, payment methods, products, prices, subscriptions and invoices, and to read events and webhook endpoints.",
  },
  exitCodes:
    "0 if every step held, 1 if one did not, 3 if the rehearsal could not begin or finish, 130 if it was interrupted",
} as const satisfies CommandLine;

if (import.meta.main) await runCommand(parseRehearseArguments, run);

export function parseRehearseArguments(
  args: readonly string[],
  here: Surroundings,
) {
  const { values } = parseCommandLine(args, COMMAND_LINE);
  if (/^[sr]k_live_/.test(here.env["STRIPE_API_KEY"] ?? "")) {
    throw new UsageError(
      "STRIPE_API_KEY is a live key, but a rehearsal needs a sandbox's: sk_test_... or rk_test_... (Stripe's dashboard, Sandboxes).",
    );
  }
  const target = readTarget({ ...values, mode: "test" }, here);

  const url = values.url ?? `${target.projectUrl}/functions/v1/billing-webhook`;
  const { origin, pathname } = safeUrl(url) ?? {};
  if (origin === undefined) {
    throw new UsageError(
      "--url takes an https URL, or an http URL on this machine.",
    );
  }
  const isProjects = origin === new URL(target.projectUrl).origin;
  if (pathname?.startsWith("/functions/v1/") && !isProjects) {
    throw new UsageError(
      `--url is the endpoint of another project than ${target.projectUrl}.`,
    );
  }

  const name = `rehearsal_${crypto.randomUUID().slice(0, 8)}`;
  const { account = name, wait: seconds = `${DEFAULT_SECONDS}` } = values;
  if (!/^[\w-]{1,255}$/.test(account)) {
    throw new UsageError("--account takes letters, digits, _ and -.");
  }
  if (!/^[1-9]\d{0,3}$/.test(seconds)) {
    throw new UsageError("--wait takes whole seconds, such as 120.");
  }
  return {
    ...target,
    name,
    account,
    url,
    // Else stripe listen, or a tunnel, forwards to it.
    isAtStripe: values.url !== undefined || !isLoopback(target.projectUrl),
    limitMs: Number(seconds) * 1000,
    json: values.json ?? false,
  };
}

type Arguments = ReturnType<typeof parseRehearseArguments>;

async function run(context: Context & Arguments): Promise<number> {
  const { provider, account, url, json } = context;
  const { projectUrl, secretKey } = context;
  const project = { projectUrl, secretKey };
  const stripe = openStripe(context);
  printError(`Rehearsing at Stripe, with ${url} as provider ${provider}`);

  const skewSeconds = await checkReceiver(url);
  await checkAccount(context);
  const registered = await findEndpoint(stripe, context);

  const ending = new AbortController();
  const { signal } = ending;
  await abortOnEnd(ending, Deno.env.toObject());
  const life = openLife({ ...context, stripe, signal });
  const results: StepResult[] = [];
  let fault: Error | undefined;
  try {
    const part = { ...context, stripe, project, life, signal };
    for await (const result of rehearse(part)) {
      results.push(result);
      if (!json) print(...stepLines(result));
    }
  } catch (error) {
    fault = error as Error;
  }

  printError("Deleting what was made at Stripe");
  const left = await life.remove();
  const [health] = await openApi(project).read("billing_health", {});
  const found = await rowsOf(project, account, life.subscription());
  const rows = { health, ...found };
  const wrong = fault ? [] : reasons({
    ...context,
    results,
    rows,
    ...registered,
    skewSeconds,
    nowMs: Date.now(),
  });
  const inProject = Object.fromEntries(
    Object.entries(found).map(([table, { length }]) => [table, length])
      .filter(([, count]) => count !== 0),
  );
  if (fault) {
    printError(
      signal.aborted ? "Interrupted." : `Not finished: ${fault.message}`,
    );
  }

  const hasPassed = !fault && wrong.length + left.length === 0;
  if (json) {
    print(JSON.stringify({
      passed: hasPassed,
      project_url: projectUrl,
      url,
      provider,
      account_id: account,
      endpoint_api_version: registered.endpoint?.api_version ?? null,
      steps: results,
      faults: wrong,
      left_at_stripe: left,
      left_in_project: inProject,
    }));
  } else {
    print(...summary({ results, wrong, left, hasPassed }));
    print(...rest(inProject, account));
  }
  if (signal.aborted) return INTERRUPTED;
  if (fault) return FAILED;
  return hasPassed ? 0 : 1;
}

/** Returns how many seconds its clock is ahead. */
async function checkReceiver(url: string): Promise<number> {
  const reply = await sendRequest(url, { method: "POST", body: "{}" });
  const isReceiver = !("fault" in reply) && reply.status === 401 &&
    reply.body === "Invalid signature";
  if (isReceiver) {
    const date = Date.parse(reply.headers.get("date") ?? "");
    return Number.isNaN(date) ? 0 : Math.round((date - Date.now()) / 1000);
  }
  const fault = "fault" in reply ? reply.fault : `answered ${reply.status}`;
  throw new Error(
    `${url} is not the receiver: ${fault}. ${asTyped("doctor")} says more.`,
  );
}

async function checkAccount(context: Arguments): Promise<void> {
  const { account, projectUrl } = context;
  await openApi(context).call("account", { account_id: account });
  const rows = Object.entries(await rowsOf(context, account));
  const [taken] = rows.find(([, { length }]) => length > 0) ?? [];
  if (taken === undefined) return;
  throw new Error(
    `${projectUrl} already has rows of the account ${account} in billing.${taken}. Name another with --account.`,
  );
}

/** Finds Stripe's endpoint with the URL, if it has to have one, and counts the others. */
async function findEndpoint(
  stripe: Stripe,
  { url, isAtStripe, wait }: Arguments & Context,
) {
  const all = await retry(
    () => Array.fromAsync(stripe.webhookEndpoints.list({ limit: 100 })),
    wait,
  );
  const place = (address: string) => address.split("?")[0];
  const enabled = all.filter(({ status }) => status === "enabled");
  const isHere = (endpoint: Stripe.WebhookEndpoint) =>
    place(endpoint.url) === place(url);
  const endpoint = enabled.find(isHere);
  if (endpoint || !isAtStripe && !all.some(isHere)) {
    const others = enabled.filter((other) => !isHere(other)).length;
    if (others > 0) printError(`Other endpoints get the events too: ${others}`);
    return { endpoint, others };
  }
  if (all.some(isHere)) {
    throw new Error(`${url} is disabled at Stripe. Enable it there.`);
  }
  const known = enabled.map(({ url }) => url).join(", ") || "none";
  throw new Error(
    `${url} is not an endpoint of this sandbox, whose endpoints are: ${known}. Add it (docs/stripe.md, "The endpoint"), or name the right one with --url.`,
  );
}

function stepLines(result: StepResult): string[] {
  const { step, state, ms, events, account, refusal } = result;
  const indent = " ".repeat("skipped  ".length);
  const head = `${state.padEnd(indent.length)}${step.padEnd(20)}`;
  if (refusal !== undefined) return [`${head}Stripe refuses it: ${refusal}`];
  const time = ms === undefined ? "" : `${ms} ms`;
  const { access, status, plan_id, quantity, paused, cancel_at } = account!;
  return [
    `${head}${time}`,
    ...events.map(({ type, outcome, error_code }) =>
      `${indent}${type} ${error_code ?? outcome}`
    ),
    `${indent}access ${access}, status ${status}, plan ${plan_id}, quantity ${quantity}, paused ${paused}, cancel_at ${cancel_at}`,
  ];
}

function summary({ results, wrong, left, hasPassed }: {
  results: readonly StepResult[];
  wrong: readonly string[];
  left: readonly string[];
  hasPassed: boolean;
}): string[] {
  const count = (state: string) =>
    results.filter((result) => result.state === state).length;
  return [
    "",
    `${count("ok")} ok, ${count("FAIL")} FAIL, ${count("skipped")} skipped`,
    ...wrong.map((text) => `- ${text}`),
    ...(left.length === 0
      ? ["Nothing is left at Stripe but an archived product."]
      : ["Left at Stripe:", ...left.map((text) => `- ${text}`)]),
    ...(hasPassed ? [] : [`${asTyped("doctor")} checks the deployment.`]),
  ];
}

function rest(inProject: Record<string, unknown>, account: string): string[] {
  const tables = Object.entries(inProject).map(([table, count]) =>
    `${count} in billing.${table}`
  );
  return tables.length === 0 ? [] : [
    `Left in the project: ${
      tables.join(", ")
    }. To delete them, in the SQL editor:`,
    `select billing.erase_account('${account}');`,
  ];
}
