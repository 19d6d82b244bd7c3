/**
 * What the rows of the catalogue use: a database, and receivers with an endpoint
 * for each of the three signature schemes.
 *
 * @module
 */
import type postgres from "postgres";
import type { Environment } from "../../scripts/common/environment.ts";
import { type ApiProxy, startApiProxy } from "../support/api_proxy.ts";
import {
  gatewayTo,
  type ServedFunction,
  startReceiver,
} from "../support/functions.ts";
import type { TestedScheme } from "../support/sign.ts";
import { connect } from "../support/tables.ts";

/** Secrets that are easy to find in a log that must not hold them. */
export const SECRETS = {
  "stripe": "whsec_CATALOGUEsecretOfA",
  "hmac-sha256-hex": "CATALOGUEsecretOfB",
  "standard-webhooks": "whsec_Q0FUQUxPR1VFc2VjcmV0T2ZTdGFuZGFyZA==",
} as const;

const HEADERS = {
  "stripe": "provider-a-signature",
  "hmac-sha256-hex": "provider-b-signature",
  "standard-webhooks": "webhook-signature",
} as const;

/** Where a provider with a scheme delivers, and what it signs with. */
export interface Endpoint {
  readonly scheme: TestedScheme;
  readonly receiver: ServedFunction;
  readonly header: string;
  readonly secret: string;
}

/** Returns a receiver's endpoint for a scheme, by default with its secret. */
export function endpointOf(
  receiver: ServedFunction,
  scheme: TestedScheme,
  secret: string = SECRETS[scheme],
): Endpoint {
  return { scheme, receiver, header: HEADERS[scheme], secret };
}

/** The endpoints of the three schemes. */
export const ENDPOINTS = ["stripe", "hex", "standard"] as const;
/** What a row may name: also of live mode alone, and before a faulty API. */
export type EndpointName = typeof ENDPOINTS[number] | "ofLive" | "behindFaults";

/** Everything that a row's check may use. */
export interface Stage extends Record<EndpointName, Endpoint> {
  readonly sql: postgres.Sql;
  readonly faultyApi: ApiProxy;
  /** The URL of `stripe` and `hex`, through the gateway. */
  readonly gatewayUrl: string;
  /** Keeps something until the end, for the rows that begin before the others. */
  keep<Kept extends AsyncDisposable>(kept: Kept): Kept;
  end(): Promise<void>;
}

/** Starts a receiver with the stage's secrets of providers A and B. */
export function startWithSecrets(env: Environment = {}) {
  return startReceiver({
    env: {
      PROVIDER_A_SIGNING_SECRET: SECRETS.stripe,
      PROVIDER_B_SIGNING_SECRET: SECRETS["hmac-sha256-hex"],
      ...env,
    },
  });
}

/** Starts the stage: two receivers for three schemes, and one behind faults. */
export async function openStage(): Promise<Stage> {
  await using opened = new AsyncDisposableStack();
  const sql = connect();
  opened.defer(() => sql.end({ timeout: 5 }));
  const faultyApi = opened.use(await startApiProxy());
  const [first, second, behindFaults] = await Promise.all([
    startWithSecrets(),
    startReceiver({
      env: {
        PROVIDER_A_SIGNING_SECRET: SECRETS["standard-webhooks"],
        PROVIDER_A_SIGNATURE_SCHEME: "standard-webhooks",
        PROVIDER_B_SIGNING_SECRET: SECRETS["hmac-sha256-hex"],
        PROVIDER_B_MODE: "live",
      },
    }),
    startWithSecrets({ SUPABASE_URL: faultyApi.url }),
  ]);
  for (const receiver of [first, second, behindFaults]) opened.use(receiver);
  const gateway = opened.use(await gatewayTo(first));
  const owned = opened.move();
  return {
    sql,
    stripe: endpointOf(first, "stripe"),
    hex: endpointOf(first, "hmac-sha256-hex"),
    standard: endpointOf(second, "standard-webhooks"),
    ofLive: endpointOf(second, "hmac-sha256-hex"),
    behindFaults: endpointOf(behindFaults, "stripe"),
    faultyApi,
    gatewayUrl: gateway.url,
    keep: (kept) => owned.use(kept),
    end: () => owned.disposeAsync(),
  };
}
