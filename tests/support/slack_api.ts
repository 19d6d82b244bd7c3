/** A stand-in for an incoming webhook of Slack. */
export interface SlackApi extends AsyncDisposable {
  /** The webhook's URL at Slack. Nothing is sent there. */
  readonly url: string;
  /** A fetch to which Slack is this stand-in, and nothing else exists. */
  readonly fetch: typeof globalThis.fetch;
  /** The messages in the channel, as a person sees them. */
  readonly messages: readonly string[];
  /** The bodies of all requests, refused ones included. */
  readonly bodies: readonly string[];
  /** Changes what is answered from now on to a request that is in order. */
  answerWith(answer: () => Response): void;
}

/** The path is the webhook's secret. */
export const SLACK_PATH = "/services/T00000000/B00000000/SECRET-OF-THE-PATH";

const PER_SECOND = 1;
/** Slack allows short bursts, and says no number. This is stricter than it is. */
const WINDOW_MS = 1_000;

/**
 * Listens on a free port of 127.0.0.1, and answers as Slack does: the text `ok`,
 * or a short code. A body may have no field but `text`, because Slack does not
 * document what it does with others.
 *
 * @see https://docs.slack.dev/changelog/2016-05-17-changes-to-errors-for-incoming-webhooks
 */
export function startSlackApi(
  { clock = Date.now }: { clock?: () => number } = {},
): SlackApi {
  const messages: string[] = [];
  const bodies: string[] = [];
  const times: number[] = [];
  let answerInstead: (() => Response) | undefined;

  function judge(request: Request, body: string): Response {
    if (new URL(request.url).pathname !== SLACK_PATH) {
      return new Response("no_service", { status: 404 });
    }
    const text = textOf(body);
    if (request.method !== "POST" || text === undefined) {
      return new Response("invalid_payload", { status: 400 });
    }
    if (text === "") return new Response("no_text", { status: 400 });
    const now = clock();
    if (times.filter((time) => time > now - WINDOW_MS).length >= PER_SECOND) {
      return new Response("rate_limited", {
        status: 429,
        headers: { "retry-after": "1" },
      });
    }
    times.push(now);
    if (answerInstead !== undefined) return answerInstead();
    messages.push(shown(text));
    return new Response("ok");
  }

  const server = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen: () => {} },
    async (request) => {
      const body = await request.text();
      bodies.push(body);
      return judge(request, body);
    },
  );
  const origin = `http://127.0.0.1:${server.addr.port}`;
  return {
    url: `https://hooks.slack.com${SLACK_PATH}`,
    fetch: (input, init) => {
      const { host, pathname } = new URL(`${input}`);
      if (host !== "hooks.slack.com") throw new Error(`No such host: ${host}`);
      return fetch(`${origin}${pathname}`, init);
    },
    messages,
    bodies,
    answerWith: (answer) => answerInstead = answer,
    [Symbol.asyncDispose]: () => server.shutdown(),
  };
}

/** Empty if there is none, and undefined if the body is not in order. */
function textOf(body: string): string | undefined {
  try {
    const { text = "", ...rest } = JSON.parse(body);
    return typeof text === "string" && Object.keys(rest).length === 0
      ? text
      : undefined;
  } catch {
    return undefined;
  }
}

/** Slack takes text in angle brackets for a link or a mention. */
function shown(text: string): string {
  return text.replaceAll(/<([^>]*)>/g, "[MENTION $1]")
    .replaceAll("&lt;", "<").replaceAll("&gt;", ">").replaceAll("&amp;", "&");
}
