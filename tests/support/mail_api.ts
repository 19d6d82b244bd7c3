import { setTimeout as delay } from "node:timers/promises";
import type { Environment } from "../../scripts/common/environment.ts";

/** The key of the tests, easy to find in a log that must not hold it. */
export const MAIL_API_KEY = "re_key_of_the_tests";

/** A request that the API received. */
export interface MailRequest {
  /** In milliseconds, by the API's clock. */
  readonly at: number;
  readonly status: number;
  readonly key: string;
  readonly to: string;
  readonly headers: Headers;
  readonly fields: Readonly<Record<string, string>>;
}

/**
 * A stand-in for Resend's API, with its limit, its idempotency keys, and what it
 * refuses: a mail without sender, recipient, subject or content, a line break in
 * the subject, and another mail with a key that was used.
 *
 * @see https://resend.com/docs/api-reference/errors
 */
export interface MailApi extends AsyncDisposable {
  readonly url: string;
  /** What makes a worker send here. */
  readonly env: Environment;
  readonly requests: readonly MailRequest[];
  /** Mails in JSON by idempotency key, one for each that was accepted. */
  readonly mails: ReadonlyMap<string, string>;
  /** Changes what is answered from now on to a request within the limit. */
  answerWith(answer: () => Response): void;
}

const WINDOW_MS = 1_000;

/**
 * Listens on a free port of 127.0.0.1. More requests than the limit within any
 * second get 429, with the headers that Resend documents, and count as well.
 *
 * @param options.perSecond The limit; by default there is none.
 * @param options.latencyMs How long an answer takes, in milliseconds.
 * @param options.now Its clock, in milliseconds.
 * @see https://resend.com/docs/api-reference/rate-limit
 */
export function startMailApi(
  { perSecond = Infinity, latencyMs = 0, now = Date.now, sleep = delay }: {
    perSecond?: number;
    latencyMs?: number;
    now?: () => number;
    sleep?: (ms: number) => Promise<unknown>;
  } = {},
): MailApi {
  const requests: MailRequest[] = [];
  const mails = new Map<string, string>();
  let answerInstead: (() => Response) | undefined;

  function limit(at: number) {
    const recent = requests.filter((request) => request.at > at - WINDOW_MS);
    const oldest = recent[0]?.at ?? at;
    const reset = String(Math.ceil((oldest + WINDOW_MS - at) / 1000));
    const isExceeded = recent.length >= perSecond;
    return {
      isExceeded,
      headers: perSecond === Infinity ? {} : {
        "ratelimit-limit": String(perSecond),
        "ratelimit-remaining": String(
          Math.max(0, perSecond - recent.length - 1),
        ),
        "ratelimit-reset": reset,
        ...(isExceeded && { "retry-after": reset }),
      },
    };
  }

  function judge(
    key: string,
    { fields, at }: { fields: Record<string, string>; at: number },
  ) {
    const { isExceeded, headers } = limit(at);
    if (isExceeded) {
      return refusal(429, "rate_limit_exceeded", headers);
    }
    if (answerInstead !== undefined) return answerInstead();
    const fault = faultOf(fields);
    if (fault !== undefined) return refusal(422, fault, headers);
    const mail = JSON.stringify(fields);
    if (mails.has(key) && mails.get(key) !== mail) {
      return refusal(409, "invalid_idempotent_request", headers);
    }
    mails.set(key, mail);
    return Response.json({ id: `mail_${key}` }, { headers });
  }

  const server = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen: () => {} },
    async (request) => {
      const fields = await request.json();
      const { to } = fields;
      const { headers } = request;
      const key = headers.get("idempotency-key") ?? "";
      const isKnown = headers.get("authorization") === `Bearer ${MAIL_API_KEY}`;
      const at = now();
      const answer = !isKnown
        ? refusal(403, "invalid_api_key")
        : key === ""
        ? refusal(400, "invalid_idempotency_key")
        : judge(key, { fields, at });
      requests.push({ at, status: answer.status, key, to, headers, fields });
      if (latencyMs > 0) await sleep(latencyMs);
      return answer;
    },
  );
  const url = `http://127.0.0.1:${server.addr.port}`;
  return {
    url,
    env: {
      RESEND_API_KEY: MAIL_API_KEY,
      NOTIFICATION_FROM: "Billing <billing@example.com>",
      RESEND_BASE_URL: url,
    },
    requests,
    mails,
    answerWith: (changed) => answerInstead = changed,
    [Symbol.asyncDispose]: () => server.shutdown(),
  };
}

/** Returns the name of the error that a mail gets, or undefined. */
function faultOf(
  { from, to, subject, text, html }: Record<string, string>,
): string | undefined {
  if (!from || !to || !subject) return "missing_required_field";
  const isGood = to.includes("@") && !/[\r\n]/.test(subject) &&
    (text || html);
  return isGood ? undefined : "validation_error";
}

function refusal(
  statusCode: number,
  name: string,
  headers: Record<string, string> = {},
): Response {
  return Response.json({ statusCode, name, message: `This is ${name}` }, {
    status: statusCode,
    headers,
  });
}
