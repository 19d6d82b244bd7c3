/** Stand-ins for an account's endpoint and for Resend's API. */
import { Webhook } from "standardwebhooks";
import type { Environment } from "../../scripts/common/environment.ts";
import { eventually } from "./hang_limit.ts";
import { serveHere } from "./machine.ts";

/** `whsec_` and base64, as the docs say. */
export const NOTIFICATION_SECRET =
  "whsec_c2lnbmluZy1zZWNyZXQtb2YtdGhlLXRlc3RzLTAx";

/** In the URL of every endpoint, so that a URL in a log is found. */
const URL_SECRET = "secret-of-the-url";

export interface Arrival {
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

type Answer = (arrival: Arrival) => Response | Promise<Response>;

export function startNotifiedEndpoint() {
  const webhook = new Webhook(NOTIFICATION_SECRET);
  const arrivals: Arrival[] = [];
  const refused: string[] = [];
  let answer: Answer = () => new Response("OK");

  const server = serveHere(async (request) => {
    const { headers } = request;
    try {
      const message = webhook.verify(
        await request.text(),
        Object.fromEntries(headers),
      ) as Arrival["message"];
      const id = headers.get("webhook-id") ?? "";
      const eventId = String(message.data["event_id"]);
      const arrival = { id, eventId, headers, message };
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
    env: {
      NOTIFICATION_URL: `${server.url}?token=${URL_SECRET}`,
      NOTIFICATION_SIGNING_SECRET: NOTIFICATION_SECRET,
    } as Environment,
    arrivals,
    /** Why requests were refused: nothing the worker sends should be. */
    refused,
    answerWith: (changed: Answer) => {
      answer = changed;
    },
    about,
    arrived: (eventId: string) =>
      eventually(
        () => about(eventId).length > 0,
        () => `something about ${eventId}; refused: ${refused}`,
      ),
    [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
  };
}

/** The key of the tests, easy to find in a log that must not hold it. */
export const MAIL_API_KEY = "re_key_of_the_tests";

export interface MailRequest {
  /** In milliseconds, by the API's clock. */
  readonly at: number;
  readonly status: number;
  readonly key: string;
  readonly fields: Readonly<Record<string, string>>;
}

/**
 * Starts Resend's API, with its limit: more requests than that within any second
 * get 429, and count as well.
 *
 * @see https://resend.com/docs/api-reference/rate-limit
 */
export function startMailApi({ perSecond = Infinity, now = Date.now } = {}) {
  const requests: MailRequest[] = [];

  /** Why a request is refused, as Resend says it, or undefined. */
  function refusal({ headers }: Request, fields: MailRequest["fields"]) {
    const { from, to, subject, text, html } = fields;
    if (headers.get("authorization") !== `Bearer ${MAIL_API_KEY}`) {
      return [403, "invalid_api_key"] as const;
    }
    const recent = requests.filter(({ at }) => at > now() - 1_000);
    if (recent.length >= perSecond) {
      return [429, "rate_limit_exceeded"] as const;
    }
    const isWhole = headers.get("idempotency-key") && from && subject &&
      to?.includes("@") && text && html;
    return isWhole ? undefined : [422, "missing_required_field"] as const;
  }

  const server = serveHere(async (request) => {
    const fields = await request.json();
    const key = request.headers.get("idempotency-key") ?? "";
    const [status, name] = refusal(request, fields) ?? [200];
    requests.push({ at: now(), status, key, fields });
    if (status === 200) return Response.json({ id: `mail_${key}` });

    const body = { statusCode: status, name, message: `This is ${name}` };
    const headers = new Headers(status === 429 ? { "retry-after": "1" } : {});
    return Response.json(body, { status, headers });
  });

  return {
    ...server,
    env: {
      RESEND_API_KEY: MAIL_API_KEY,
      NOTIFICATION_FROM: "Billing <billing@example.com>",
      RESEND_BASE_URL: server.url,
    },
    requests: requests as readonly MailRequest[],
  };
}
