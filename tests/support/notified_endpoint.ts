import { Webhook } from "standardwebhooks";
import type { Environment } from "../../scripts/common/environment.ts";
import { waitUntil } from "../../scripts/common/wait_until.ts";
import { HANG_LIMIT_MS, limited } from "./hang_limit.ts";

/** `whsec_` and base64, as the docs say. */
export const NOTIFICATION_SECRET =
  "whsec_c2lnbmluZy1zZWNyZXQtb2YtdGhlLXRlc3RzLTAx";

/** In the URL of every endpoint, so that a URL in a log is found. */
export const URL_SECRET = "secret-of-the-url";

/** What a notification says. */
export interface Message {
  readonly type: string;
  readonly timestamp: string;
  readonly data: Readonly<Record<string, unknown>>;
}

/** A notification that arrived and was verified by the package. */
export interface Arrival {
  /** Its `webhook-id`. */
  readonly id: string;
  /** What it is about; tests tell notifications apart by it. */
  readonly eventId: string;
  readonly headers: Headers;
  readonly message: Message;
}

/** Returns the endpoint's answer, at once or later. */
export type AnswerTo = (arrival: Arrival) => Response | Promise<Response>;

/** The account's side: an endpoint that notifications are sent to. */
export interface NotifiedEndpoint extends AsyncDisposable {
  /** What makes a worker send here. */
  readonly env: Environment;
  /** Everything that verified, in order of arrival. */
  readonly arrivals: readonly Arrival[];
  /** Why requests were refused: nothing the worker sends should be. */
  readonly refused: readonly string[];
  /** Changes what is answered from now on; 200 until then. */
  answerWith(answer: AnswerTo): void;
  /** What arrived about an event. */
  about(eventId: string): readonly Arrival[];
  /** Resolves when that many have arrived about an event. */
  arrived(eventId: string, options?: { times: number }): Promise<void>;
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
  let answer: AnswerTo = () => new Response("OK");

  const server = Deno.serve({
    hostname: "127.0.0.1",
    port,
    onListen: () => {},
  }, async (request) => {
    try {
      const message = webhook.verify(
        await request.text(),
        Object.fromEntries(request.headers),
      ) as Message;
      const arrival = {
        id: request.headers.get("webhook-id") ?? "",
        eventId: String(message.data.event_id),
        headers: request.headers,
        message,
      };
      arrivals.push(arrival);
      return await answer(arrival);
    } catch (error) {
      refused.push((error as Error).message);
      return new Response("Invalid signature", { status: 401 });
    }
  });

  function about(eventId: string) {
    return arrivals.filter((arrival) => arrival.eventId === eventId);
  }

  return {
    env: notifiedEnvironment(server.addr.port),
    arrivals,
    refused,
    answerWith: (changed) => answer = changed,
    about,
    arrived: async (eventId, { times } = { times: 1 }) => {
      const isThere = await waitUntil(() => about(eventId).length >= times, {
        timeoutMs: HANG_LIMIT_MS,
        intervalMs: 5,
      });
      if (!isThere) {
        throw new Error(
          `${
            about(eventId).length
          } of ${times} arrived about ${eventId}; refused: ${refused}`,
        );
      }
    },
    [Symbol.asyncDispose]: () =>
      limited(server.shutdown(), "the end of the notified endpoint"),
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
