import { assert, assertEquals } from "@std/assert";
import type {
  Alert,
  FailureOpened,
} from "../../../supabase/functions/billing-worker/channels/channel.ts";
import { slackChannel } from "../../../supabase/functions/billing-worker/channels/slack_channel.ts";
import { OPENED, RESOLVED } from "../../support/alerts.ts";
import { startSlackApi } from "../../support/slack_api.ts";

const FAILURE = OPENED.alert as FailureOpened;

/** Returns the text of an alert as a person sees it in Slack. */
async function shown(
  alert: Alert,
  projectUrl?: string,
): Promise<string | undefined> {
  await using slack = startSlackApi();
  const channel = slackChannel(slack.url, {
    projectUrl,
    fetch: slack.fetch,
    clock: Date.now,
  });
  assertEquals(await channel.send(alert), { result: "sent" });
  return slack.messages[0];
}

Deno.test("slackChannel() says what failed, and what to do", async () => {
  assertEquals(
    await shown(OPENED),
    `Billing: 3 new failed events with event_invalid
Open: 12, since 2026-11-21 05:07 UTC.
Newest: evt_1 (customer.subscription.created, provider a): data.object.metadata.accountId is missing
What to do: run select * from billing.open_failures; in the SQL editor, and look up event_invalid in the receiver's docs/runbook.md`,
  );
});

Deno.test("slackChannel() links the SQL editor of a hosted project only", async () => {
  const linkOf = async (projectUrl: string) =>
    (await shown(OPENED, projectUrl))?.split("\n")[4];
  assertEquals(
    await linkOf("https://abcdefghijklmnopqrst.supabase.co"),
    "SQL editor: https://supabase.com/dashboard/project/abcdefghijklmnopqrst/sql/new",
  );
  for (const url of ["http://127.0.0.1:54321", "https://billing.example.com"]) {
    assertEquals(await linkOf(url), undefined);
  }
});

Deno.test("slackChannel() does without an error and a type", async () => {
  const { error: _, event_type: __, ...alert } = { ...FAILURE, new: 1 };
  assertEquals(
    (await shown({ ...OPENED, alert }))?.split("\n").slice(0, 3),
    [
      "Billing: 1 new failed event with event_invalid",
      "Open: 12, since 2026-11-21 05:07 UTC.",
      "Newest: evt_1 (type unknown, provider a)",
    ],
  );
});

Deno.test("slackChannel() says that nothing is open any more", async () => {
  assertEquals(
    await shown(RESOLVED),
    `Billing: no failed event with event_invalid is open any more.
Resolved: 12. Reported since 2026-11-21 06:25 UTC.
If more fail soon, the next alert may come up to an hour late: after a repair, look at billing.open_failures again.`,
  );
});

Deno.test("slackChannel() lets no event mention anybody", async () => {
  const event_type = "<!channel> & &lt;!here&gt; <https://evil.test|pay>";
  const text = await shown({ ...OPENED, alert: { ...FAILURE, event_type } });
  assert(text?.includes(`(${event_type}, provider a)`), text);
});

for (
  const [answer, status, headers, attempt] of [
    ["no_service", 404, {}, { result: "failed" }],
    ["action_prohibited", 403, {}, { result: "failed" }],
    ["channel_is_archived", 410, {}, { result: "dead" }],
    ["rollup_error", 500, {}, { result: "failed" }],
    ["rate_limited", 429, { "retry-after": "30" }, {
      result: "limited",
      retryAfterSeconds: 30,
    }],
  ] as const
) {
  Deno.test(`slackChannel() reads the status of ${answer}`, async () => {
    await using slack = startSlackApi();
    slack.answerWith(() => new Response(answer, { status, headers }));
    const channel = slackChannel(slack.url, {
      fetch: slack.fetch,
      clock: Date.now,
    });
    const { result, ...rest } = await channel.send(OPENED);
    assertEquals(result, attempt.result);
    assertEquals(
      "retryAfterSeconds" in rest ? rest.retryAfterSeconds : undefined,
      "retryAfterSeconds" in attempt ? attempt.retryAfterSeconds : undefined,
    );
    assertEquals(
      "error" in rest && rest.error,
      `the receiver answered ${status}${status === 410 ? " Gone" : ""}`,
    );
    assertEquals(slack.messages, []);
  });
}

Deno.test("slackChannel() keeps its path to itself", async () => {
  await using slack = startSlackApi();
  const { name, destination } = slackChannel(slack.url, {
    fetch: slack.fetch,
    clock: Date.now,
  });
  assertEquals([name, destination], ["slack", "alerts to hooks.slack.com"]);
  const broken = slackChannel(slack.url, {
    fetch: () => {
      throw new TypeError(`error sending request for url (${slack.url})`);
    },
    clock: Date.now,
  });
  assertEquals(await broken.send(OPENED), {
    result: "failed",
    error: "error sending request for url (ALERT_URL)",
  });
});
