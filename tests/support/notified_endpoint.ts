import { assert } from "@std/assert";
import { Webhook } from "standardwebhooks";
import type { Environment } from "../../scripts/common/environment.ts";
import { waitUntil } from "../../scripts/local_stack/wait_until.ts";
import { HANG_LIMIT_MS } from "./hang_limit.ts";

/** `whsec_` and base64, as the docs say. */
export const NOTIFICATION_SECRET =
  "whsec_c2lnbmluZy1zZWNyZXQtb2YtdGhlLXRlc3RzLTAx";

/** In the URL of every endpoint, so that a URL in a log is found. */
export const URL_SECRET = "secret-of-the-url";

/** A notification or alert that arrived and was verified by the package. */
export interface Arrival {
  /** Its `webhook-id`. */
  readonly id: string;
  /** What it is about; tests tell notifications apart by it. */
  readonly eventId: string;
  readonly headers: Headers;
  readonly message: {
    readonly type: string;
    readonly timestamp: string;
    readonly data: Readonly<Record<string, unknown>>;
  };
}

/** The account's side: an endpoint that notifications are sent to. */
export interface NotifiedEndpoint extends AsyncDisposable {
  /** What makes a worker send here. */
  readonly env: Environment;
  /** Everything that verified, in order of arrival. */
  readonly arrivals: readonly Arrival[];
  /** Why requests were refused: nothing the worker sends should be. */
  readonly refused: readonly string[];
  /** Changes what is answered from now on, at once or later; 200 until then. */
  answerWith(answer: (arrival: Arrival) => Response | Promise<Response>): void;
  /** What arrived about an event. */
  about(eventId: string): readonly Arrival[];
  /** Resolves when something has arrived about an event. */
  arrived(eventId: string): Promise<void>;
}

/**
 * Listens on a port of 127.0.0.1.
 *
 * @param options.port By default a free one.
 */
export function startNotifiedEndpoint(
  { port = 0 }: { port?: number } = {},
): NotifiedEndpoint {
  const webhook = new Webhook(NOTIFICATION_SECRET);
  const arrivals: Arrival[] = [];
  const refused: string[] = [];
  let answer: Parameters<NotifiedEndpoint["answerWith"]>[0] = () =>
    new Response("OK");

  const ending = new AbortController();
  const server = Deno.serve({
    hostname: "127.0.0.1",
    port,
    signal: ending.signal,
    onListen: () => {},
  }, async (request) => {
    const { headers } = request;
    try {
      const signed = Object.fromEntries(headers);
      const message = webhook.verify(await request.text(), signed) as Arrival[
        "message"
      ];
      const arrival = {
        id: headers.get("webhook-id") ?? "",
        eventId: String(message.data["event_id"]),
        headers,
        message,
      };
      arrivals.push(arrival);
      return await answer(arrival);
    } catch (error) {
      refused.push((error as Error).message);
      return new Response("Invalid signature", { status: 401 });
    }
  });

  const about = (eventId: string) =>
    arrivals.filter((arrival) => arrival.eventId === eventId);
  return {
    env: notifiedEnvironment(server.addr.port),
    arrivals,
    refused,
    answerWith: (changed) => answer = changed,
    about,
    arrived: async (eventId) => {
      const isThere = await waitUntil(() => about(eventId).length > 0, {
        timeoutMs: HANG_LIMIT_MS,
        intervalMs: 5,
      });
      assert(isThere, `Nothing arrived about ${eventId}; refused: ${refused}`);
    },
    [Symbol.asyncDispose]: async () => {
      // A shutdown would wait for answers that a failed test holds back for ever.
      ending.abort();
      await server.finished;
    },
  };
}

/** Returns the settings with which a worker notifies a port of this machine. */
export function notifiedEnvironment(port: number): Environment {
  return {
    NOTIFICATION_URL: `http://127.0.0.1:${port}?token=${URL_SECRET}`,
    NOTIFICATION_SIGNING_SECRET: NOTIFICATION_SECRET,
  };
}

/** Returns the settings with which a worker sends alerts to an endpoint. */
export function alertEnvironment({ env }: NotifiedEndpoint): Environment {
  const { NOTIFICATION_URL: url = "" } = env;
  return { ALERT_URL: url, ALERT_SIGNING_SECRET: NOTIFICATION_SECRET };
}
