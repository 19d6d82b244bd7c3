import { assert, assertEquals, assertThrows } from "@std/assert";
import { chooseAlertChannel } from "../../../supabase/functions/billing-worker/channels/choose_channel.ts";
import { OPENED } from "../../support/alerts.ts";

const SECRET = "whsec_c2lnbmluZy1zZWNyZXQtb2YtdGhlLXRlc3RzLTAx";
const SLACK = "https://hooks.slack.com/services/T0/B0/PATH-SECRET";

/** Chooses; nothing may be sent. */
function choose(env: Record<string, string>) {
  return chooseAlertChannel(env, {
    fetch: () => {
      throw new Error("Nothing is to be sent here");
    },
    clock: Date.now,
  })?.name;
}

for (const env of [{}, { ALERT_URL: "" }, { ALERT_SIGNING_SECRET: SECRET }]) {
  Deno.test(`chooseAlertChannel() has none to choose with ${JSON.stringify(env)}`, () => {
    assertEquals(choose(env), undefined);
  });
}

for (
  const [url, name] of [
    ["https://ops.test/billing", "webhook"],
    ["http://127.0.0.1:8080/", "webhook"],
    ["http://localhost:8080/", "webhook"],
    ["https://hooks.slack.com.ops.test/services/x", "webhook"],
    ["https://ops.test/hooks.slack.com/services/x", "webhook"],
    [SLACK, "slack"],
    ["https://hooks.slack-gov.com/services/T0/B0/x", "slack"],
    ["HTTPS://Hooks.Slack.com:443/services/T0/B0/x", "slack"],
  ] as const
) {
  Deno.test(`chooseAlertChannel() takes ${url} for ${name}`, () => {
    assertEquals(
      choose({ ALERT_URL: url, ALERT_SIGNING_SECRET: SECRET }),
      name,
    );
  });
}

Deno.test("chooseAlertChannel() asks for no signing secret if Slack is the receiver", () => {
  assertEquals(choose({ ALERT_URL: SLACK }), "slack");
});

Deno.test("chooseAlertChannel() tells Slack which project it is", async () => {
  const bodies: string[] = [];
  const channel = chooseAlertChannel({
    ALERT_URL: SLACK,
    SUPABASE_URL: "https://abcdefghijklmnopqrst.supabase.co",
  }, {
    fetch: (_url, init) => {
      bodies.push(String(init?.body));
      return Promise.resolve(new Response("ok"));
    },
    clock: Date.now,
  });
  await channel?.send(OPENED);
  assert(bodies[0]?.includes("/project/abcdefghijklmnopqrst/sql"), bodies[0]);
});

for (
  const [what, env, name] of [
    ["plain http", {
      ALERT_URL: "http://ops.test/PATH-SECRET",
      ALERT_SIGNING_SECRET: SECRET,
    }, "ALERT_URL must"],
    ["plain http to Slack", {
      ALERT_URL: SLACK.replace("https", "http"),
    }, "ALERT_URL must"],
    ["credentials", {
      ALERT_URL: "https://PATH-SECRET@ops.test/",
      ALERT_SIGNING_SECRET: SECRET,
    }, "ALERT_URL must"],
    ["no URL", {
      ALERT_URL: "PATH-SECRET",
      ALERT_SIGNING_SECRET: SECRET,
    }, "ALERT_URL must"],
    ["no signing secret", {
      ALERT_URL: "https://ops.test/PATH-SECRET",
    }, "ALERT_SIGNING_SECRET is not set"],
    ["a malformed signing secret", {
      ALERT_URL: "https://ops.test/PATH-SECRET",
      ALERT_SIGNING_SECRET: "whsec_short",
    }, "ALERT_SIGNING_SECRET must"],
  ] as const
) {
  Deno.test(`chooseAlertChannel() refuses ${what}, and names the setting, not its value`, () => {
    const { message } = assertThrows(
      () => choose(env),
      Error,
      `Cannot start: ${name}`,
    );
    assert(!/PATH-SECRET|short/.test(message), message);
  });
}
