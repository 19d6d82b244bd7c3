/**
 * What the checks of the catalogue's rows use: a database, and receivers with an
 * endpoint for each of the three signature schemes.
 *
 * @module
 */
import type postgres from "postgres";
import type { TestedScheme } from "../support/sign.ts";
import { startReceiver } from "../support/receiver.ts";
import type { ServedFunction } from "../support/serve_function.ts";
import { connect } from "../support/tables.ts";
import { type ApiProxy, startApiProxy } from "../support/api_proxy.ts";
import { gatewayTo } from "../support/receiver_gateway.ts";
import {
  type HostileEndpoint,
  startHostileEndpoint,
} from "./hostile_endpoint.ts";
import { type HungDeliveries, startHungDeliveries } from "./hung_api.ts";
import type { CatalogueRow } from "./row.ts";
import { SECRETS } from "./secrets.ts";
import { startTrickle, type Trickle } from "./trickle.ts";

/** Where a provider with a scheme delivers, and what it signs with. */
export interface Endpoint {
  readonly scheme: TestedScheme;
  readonly receiver: ServedFunction;
  readonly provider: "a" | "b";
  readonly header: string;
  readonly secret: string;
}

/** Everything that a row's check may use. */
export interface Stage extends AsyncDisposable {
  readonly sql: postgres.Sql;
  readonly stripe: Endpoint;
  readonly hex: Endpoint;
  readonly standard: Endpoint;
  /**
   * Provider A's, on a receiver that reaches the database by the faulty API.
   */
  readonly behindFaults: Endpoint;
  readonly faultyApi: ApiProxy;
  /** The first receiver's URL, through the gateway. */
  readonly gatewayUrl: string;
  readonly trickle: Trickle;
  readonly hungDeliveries: HungDeliveries;
  readonly hostileEndpoint: HostileEndpoint;
}

/** A row of the catalogue, whose test may use all of it. */
export type Row = CatalogueRow<Stage>;

/** Returns all endpoints, for rows that hold for every scheme. */
export function endpoints({ stripe, hex, standard }: Stage): Endpoint[] {
  return [stripe, hex, standard];
}

/**
 * Starts the stage. It needs two receivers: three schemes, two providers each.
 */
export async function openStage(): Promise<Stage> {
  await using opened = new AsyncDisposableStack();
  const sql = connect();
  opened.defer(() => sql.end());
  const faultyApi = opened.use(await startApiProxy());
  const [first, second, behindFaults] = await Promise.all([
    startReceiver({
      env: {
        PROVIDER_A_SIGNING_SECRET: SECRETS.stripe,
        PROVIDER_B_SIGNING_SECRET: SECRETS["hmac-sha256-hex"],
      },
    }),
    startReceiver({
      env: {
        PROVIDER_A_SIGNING_SECRET: SECRETS["standard-webhooks"],
        PROVIDER_A_SIGNATURE_SCHEME: "standard-webhooks",
      },
    }),
    startReceiver({
      env: {
        PROVIDER_A_SIGNING_SECRET: SECRETS.stripe,
        SUPABASE_URL: faultyApi.url,
      },
    }),
  ]);
  for (const receiver of [first, second, behindFaults]) opened.use(receiver);
  const gateway = opened.use(await gatewayTo(first));
  const trickle = opened.use(await startTrickle());
  const hungDeliveries = opened.use(await startHungDeliveries());
  const hostileEndpoint = opened.use(await startHostileEndpoint());
  const owned = opened.move();
  return {
    sql,
    stripe: stripeEndpoint(first),
    hex: hexEndpoint(first),
    standard: {
      scheme: "standard-webhooks",
      receiver: second,
      provider: "a",
      header: "webhook-signature",
      secret: SECRETS["standard-webhooks"],
    },
    behindFaults: stripeEndpoint(behindFaults),
    faultyApi,
    gatewayUrl: gateway.url,
    trickle,
    hungDeliveries,
    hostileEndpoint,
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/** Provider A's endpoint, of any receiver with the stage's secret. */
export function stripeEndpoint(receiver: ServedFunction): Endpoint {
  return {
    scheme: "stripe",
    receiver,
    provider: "a",
    header: "provider-a-signature",
    secret: SECRETS.stripe,
  };
}

/** Provider B's endpoint, likewise. */
export function hexEndpoint(receiver: ServedFunction): Endpoint {
  return {
    scheme: "hmac-sha256-hex",
    receiver,
    provider: "b",
    header: "provider-b-signature",
    secret: SECRETS["hmac-sha256-hex"],
  };
}
