import { assertEquals } from "@std/assert";
import type {
  Alert,
  Attempt,
  FailureOpened,
} from "../../../supabase/functions/billing-worker/channels/channel.ts";
import { chooseAlertChannel } from "../../../supabase/functions/billing-worker/channels/choose_channel.ts";
import { OPENED, RESOLVED } from "../../support/alerts.ts";

const URL_TEXT = "https://hooks.slack.com/services/T0/B0/LEAKED";

/** Sends an alert to a Slack that answers so. */
async function send(
  alert: Alert,
  reply: () => Response = () => new Response("ok"),
  SUPABASE_URL = "http://127.0.0.1:54321",
): Promise<{ attempt: Attempt | undefined; text: string }> {
  let text = "";
  const channel = chooseAlertChannel({ ALERT_URL: URL_TEXT, SUPABASE_URL }, {
    fetch: (url, init) => {
      assertEquals([url, init?.method], [URL_TEXT, "POST"]);
      // Slack does not say what it does with further fields.
      const { text: sent, ...more } = JSON.parse(String(init?.body));
      text = sent;
      assertEquals(more, {});
      return Promise.resolve(reply());
    },
    clock: Date.now,
  });
  assertEquals(channel?.destination, "alerts to hooks.slack.com");
  return { attempt: await channel?.send(alert), text };
}

const opened = OPENED.alert as FailureOpened;
const alert = (changes: object) => ({
  ...OPENED,
  alert: { ...opened, ...changes },
});
const DO =
  "What to do: run select * from billing.open_failures; in the SQL editor, and look up event_invalid in the receiver's docs/runbook.md";
const OPEN = "Open: 12, since 2026-11-21 05:07 UTC.";

const TEXTS: [message: Alert, projectUrl: string, lines: string[]][] = [
  [OPENED, "https://abcdefghijklmnopqrst.supabase.co", [
    "Billing: 3 new failed events with event_invalid",
    OPEN,
    "Newest: evt_1 (customer.subscription.created, provider a): data.object.metadata.accountId is missing",
    DO,
    "SQL editor: https://supabase.com/dashboard/project/abcdefghijklmnopqrst/sql/new",
  ]],
  ...[
    "http://127.0.0.1:54321",
    "https://a.example.com",
    "https://a.b.supabase.co",
  ]
    .map((url): (typeof TEXTS)[number] => [
      alert({ new: 1, error: undefined, event_type: undefined }),
      url,
      [
        "Billing: 1 new failed event with event_invalid",
        OPEN,
        "Newest: evt_1 (type unknown, provider a)",
        DO,
      ],
    ]),
  // Otherwise it could mention a whole channel.
  [alert({ error: undefined, event_type: "<!channel> & &lt;x>" }), "", [
    "Billing: 3 new failed events with event_invalid",
    OPEN,
    "Newest: evt_1 (&lt;!channel&gt; &amp; &amp;lt;x&gt;, provider a)",
    DO,
  ]],
  [RESOLVED, "", [
    "Billing: no failed event with event_invalid is open any more.",
    "Resolved: 12. Reported since 2026-11-21 06:25 UTC.",
    "If more fail soon, the next alert may come up to an hour late: after a repair, look at billing.open_failures again.",
  ]],
];
Deno.test("slackChannel() says what failed and what to do, or that nothing is open any more", async () => {
  for (const [message, projectUrl, lines] of TEXTS) {
    const { attempt, text } = await send(message, undefined, projectUrl);
    assertEquals([attempt, text.split("\n")], [{ result: "sent" }, lines]);
  }
});

Deno.test("slackChannel() reads the status, and keeps its path to itself", async () => {
  const failed = (error: string): Attempt => ({ result: "failed", error });
  const answered = failed("the receiver answered 404");
  const url = `error sending request for url (${URL_TEXT})`;
  const cases: [reply: () => Response, attempt: Attempt][] = [
    [() => new Response("no_service", { status: 404 }), {
      ...answered,
      retryAfterSeconds: undefined,
    } as Attempt],
    [() => {
      throw new TypeError(url);
    }, failed(url.replace(URL_TEXT, "ALERT_URL"))],
  ];
  for (const [reply, attempt] of cases) {
    assertEquals((await send(OPENED, reply)).attempt, attempt);
  }
});
