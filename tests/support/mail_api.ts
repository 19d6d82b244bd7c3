import type { Environment } from "../../scripts/common/environment.ts";

/** The key of the tests, easy to find in a log that must not hold it. */
export const MAIL_API_KEY = "re_key_of_the_tests";

/** A request that the API received. */
export interface MailRequest {
  /** In milliseconds, by the API's clock. */
  readonly at: number;
  readonly status: number;
  /** Its `idempotency-key`. */
  readonly key: string;
  readonly fields: Readonly<Record<string, string>>;
}

/** A stand-in for Resend's API, with its limit. */
export interface MailApi extends AsyncDisposable {
  readonly url: string;
  /** What makes a worker send here. */
  readonly env: Environment;
  readonly requests: readonly MailRequest[];
}

/**
 * Listens on a free port of 127.0.0.1. More requests than the limit within any
 * second get 429, and count as well.
 *
 * @param options.perSecond The limit; by default there is none.
 * @param options.now Its clock, in milliseconds.
 * @see https://resend.com/docs/api-reference/rate-limit
 */
export function startMailApi(
  { perSecond = Infinity, now = Date.now }: {
    perSecond?: number;
    now?: () => number;
  } = {},
): MailApi {
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

  const server = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen: () => {} },
    async (request) => {
      const fields = await request.json();
      const key = request.headers.get("idempotency-key") ?? "";
      const [status, name] = refusal(request, fields) ?? [200];
      requests.push({ at: now(), status, key, fields });
      const answer = status === 200
        ? { id: `mail_${key}` }
        : { statusCode: status, name, message: `This is ${name}` };
      const headers = status === 429 ? { "retry-after": "1" } : undefined;
      return Response.json(answer, { status, ...(headers && { headers }) });
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
    [Symbol.asyncDispose]: () => server.shutdown(),
  };
}
