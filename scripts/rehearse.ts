/** The result goes to standard output, progress to standard error. */
import type Stripe from "stripe";
import { settingsPrefix } from "../supabase/functions/_shared/billing/settings/providers.ts";
import { abortOnEnd } from "./common/abort_on_end.ts";
import { commandLine, print, printError, UsageError } from "./common/cli.ts";
import { isLoopback } from "./common/loopback.ts";
import { nextStep } from "./common/next_step.ts";
import {
  endpointUrl,
  PROJECT_ENVIRONMENT,
  type Surroundings,
} from "./common/option_values.ts";
import { openApi } from "./common/project_api.ts";
import type { Findings } from "./doctor/check.ts";
import { checkEndpoint } from "./doctor/endpoint.ts";
import { checkProject } from "./doctor/project.ts";
import {
  type Context,
  FAILED,
  PLACE_OPTIONS,
  readTarget,
  runCommand,
} from "./stripe_sync/command.ts";
import { differenceLine } from "./stripe_sync/differences.ts";
import {
  isApplied,
  openLife,
  rehearse,
  type StepResult,
} from "./stripe_sync/rehearsal.ts";

const INTERRUPTED = 130;

const parse = commandLine({
  usage: "rehearse",
  summary:
    `Makes a subscription in your Stripe sandbox, changes it step by step, and shows
what your project makes of each step. Cleans up at Stripe afterwards, also after
Ctrl-C. It was never run against Stripe itself: please send us its output.`,
  options: {
    "--url URL":
      "the endpoint, as registered at Stripe (default: the project's)",
    "--account ID": "an account without rows (default: a new ID)",
    "--wait SECONDS": "how long a step may take (default: 90)",
    "--json": "print one JSON document",
    ...PLACE_OPTIONS,
  },
  environment: {
    ...PROJECT_ENVIRONMENT,
    STRIPE_API_KEY:
      "sk_test_... or rk_test_... A restricted key (rk_) may write customers, payment methods, products, prices, subscriptions and invoices, and read events and webhook endpoints.",
  },
  exitCodes:
    "0 if every step and check succeeded, 1 if one did not, 3 if the rehearsal could not begin or end, 130 if it was interrupted",
});

type Arguments = ReturnType<typeof parseRehearseArguments>;

if (import.meta.main) await runCommand(parseRehearseArguments, run);

function parseRehearseArguments(args: readonly string[], here: Surroundings) {
  const { values } = parse(args);
  const target = readTarget({ ...values, mode: "test" }, here);
  const { projectUrl } = target;

  const url = endpointUrl(values.url, projectUrl);
  if (url.includes("/functions/v1/") && !url.startsWith(`${projectUrl}/`)) {
    throw new UsageError(`--url is not an endpoint of ${projectUrl}.`);
  }
  const name = `rehearsal_${crypto.randomUUID().slice(0, 8)}`;
  const { account = name, wait = "90", json = false } = values;
  if (!/^[1-9]\d{0,3}$/.test(wait)) {
    throw new UsageError("--wait takes seconds, such as 90.");
  }

  return {
    ...target,
    url,
    // Else stripe listen or a tunnel forwards to it.
    isRegistered: values.url !== undefined || !isLoopback(projectUrl),
    name,
    account,
    limitMs: Number(wait) * 1000,
    json,
    doctor: { env: here.env, clock: Date.now },
  };
}

async function run(context: Context & Arguments): Promise<number> {
  const { stripe, provider, account, url, json, doctor } = context;
  printError(`Rehearsing with ${url}, provider ${provider}`);

  // All that refuses comes before anything is made.
  const target = { ...context, dbUrl: undefined };
  const checks = await faultsOf(checkEndpoint(target, doctor));
  const down = checks.find((text) => /^(endpoint|unsigned)/.test(text));
  if (down) throw new Error(`${url} is not the receiver. ${down}`);
  const endpoint = await findEndpoint(context);
  await checkAccount(context);
  checks.push(...await faultsOf(checkProject(target, doctor)));

  const ending = new AbortController();
  const { signal } = ending;
  await abortOnEnd(ending, Deno.env.toObject());

  const life = openLife({ ...context, stripe: stripe.client });
  const steps: StepResult[] = [];
  let fault: string | undefined;
  try {
    for await (const result of rehearse({ ...context, life, signal })) {
      steps.push(result);
      if (!json) print(...stepLines(result));
    }
  } catch (error) {
    fault = signal.aborted ? "interrupted" : (error as Error).message;
  }

  printError("Deleting what was made at Stripe");
  const left = await life.remove();
  if (fault !== undefined) printError(`Not finished: ${fault}`);

  const faults = new Set([
    ...checks,
    ...steps.flatMap((result) => reasons(result, { ...context, endpoint })),
  ]);
  const passed = fault === undefined && faults.size + left.length === 0;

  if (json) {
    print(JSON.stringify({
      passed,
      project_url: context.projectUrl,
      url,
      provider,
      account_id: account,
      api_version: endpoint?.api_version,
      steps,
      faults: [...faults],
      left_at_stripe: left,
    }));
  } else {
    const count = (wanted: string) =>
      steps.filter(({ state }) => state === wanted).length;
    print(
      "",
      `${count("ok")} ok, ${count("FAIL")} FAIL, ${count("skipped")} skipped`,
      ...Array.from(faults, (text) => `- ${text}`),
      "Left at Stripe: paid invoices, and an archived product",
      ...left.map((text) => `- ${text}`),
      "Left in the project: the account's rows. To delete them, in the SQL editor:",
      `select billing.erase_account('${account.replaceAll("'", "''")}');`,
    );
  }
  if (fault !== undefined) return signal.aborted ? INTERRUPTED : FAILED;
  return passed ? 0 : 1;
}

/** Also shows whether all that apps read can be read. */
async function checkAccount({ account, ...project }: Arguments) {
  const { call, read } = openApi(project);
  await call("account", { account_id: account });
  const query = { account_id: `eq.${account}` };
  const records = await read("billing_records", query);
  if (records.length > 0) {
    throw new Error(`The project has rows of account ${account}.`);
  }
}

async function faultsOf(findings: Findings): Promise<string[]> {
  const all = await Array.fromAsync(findings);
  return all.filter(({ state }) => state === "FAIL")
    .map(({ name, text }) => `${name}: ${text}`);
}

async function findEndpoint(
  { stripe, url, isRegistered }: Context & Arguments,
): Promise<Stripe.WebhookEndpoint | undefined> {
  const place = (address: string) => address.split("?")[0];
  const all = (await stripe.endpoints())
    .filter(({ status }) => status === "enabled");
  const endpoint = all.find((other) => place(other.url) === place(url));
  if (endpoint || !isRegistered) return endpoint;
  throw new Error(
    `${url} is not an enabled endpoint of this sandbox. Add it (docs/stripe.md, "The endpoint"), or name with --url the one that is meant: ${
      all.map(({ url }) => url).join(", ")
    }`,
  );
}

function stepLines(
  { step, state, ms, events = [], account, refusal }: StepResult,
): string[] {
  const details = [
    ...events.map(({ type, outcome }) => `${type} ${outcome}`),
    account ? JSON.stringify(account) : `Stripe refuses it: ${refusal}`,
  ];
  const time = ms === undefined ? "" : `${ms} ms`;
  return [
    `${state.padEnd(9)}${step.padEnd(20)}${time}`.trim(),
    ...details.map((line) => `         ${line}`),
  ];
}

/** Returns why a step did not hold, and what to do. */
function reasons(
  { step, state, events = [], account, difference }: StepResult,
  { url, provider, endpoint }: Arguments & {
    endpoint: Stripe.WebhookEndpoint | undefined;
  },
): string[] {
  if (state !== "FAIL") return [];
  const open = events.filter((event) => !isApplied(event));
  if (open.length === 0) {
    const what = difference
      ? differenceLine(difference).replace(/ +/, " ")
      : `access is ${account?.access}`;
    return [
      `After "${step}", what came was applied, but ${what}. Look for a trigger of your app on billing.subscriptions, or a function that it has replaced.`,
    ];
  }

  const prefix = settingsPrefix(provider);
  const { enabled_events: selected = ["*"] } = endpoint ?? {};
  return open.map(({ type, outcome, error }) => {
    if (outcome !== "missing") {
      const todo = nextStep(outcome, provider) ?? "";
      return `${type} failed with ${outcome}: ${error} ${todo}`.trimEnd();
    }
    if (!selected.includes("*") && !selected.includes(type)) {
      return `The endpoint does not select ${type}. Select it at Stripe: docs/stripe.md, "The endpoint".`;
    }
    return `The receiver accepts no event. If its log has signature_mismatch, set ${prefix}SIGNING_SECRET to the secret that the endpoint's page or stripe listen shows; if it has "event of the other mode ignored", set ${prefix}MODE=test; if it has nothing, let stripe listen forward to ${url}.`;
  });
}
