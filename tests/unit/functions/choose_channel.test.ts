import { assert, assertEquals, assertThrows } from "@std/assert";
import { Webhook } from "standardwebhooks";
import { chooseChannel } from "../../../supabase/functions/billing-worker/channels/choose_channel.ts";

const URL_TEXT = "https://hooks.test/billing";
const SECRET = "whsec_c2lnbmluZy1zZWNyZXQtb2YtdGhlLXRlc3RzLTAx";
const WEBHOOK = {
  NOTIFICATION_URL: URL_TEXT,
  NOTIFICATION_SIGNING_SECRET: SECRET,
};
const EMAIL = {
  RESEND_API_KEY: "re_unit",
  NOTIFICATION_FROM: "Billing <billing@example.com>",
};

/** Chooses, and tells what was logged; nothing may be sent. */
function chosen(env: Record<string, string>) {
  const lines: [string, string][] = [];
  function refuse(): never {
    throw new Error("Nothing is to be sent here");
  }
  const channel = chooseChannel(env, {
    fetch: refuse,
    addressOf: refuse,
    clock: Date.now,
    log: (level, message) => lines.push([level, message]),
  });
  return { channel, name: channel?.name, lines };
}

/** The same, without what the channel is made of. */
function choose(env: Record<string, string>) {
  const { name, lines } = chosen(env);
  return { name, lines };
}

/** Passes when the start is refused, naming the variable and no value. */
function assertRefused(env: Record<string, string>, names: string): void {
  const { message } = assertThrows(() => choose(env), Error, "Cannot start: ");
  assert(message.includes(names), message);
  for (const value of Object.values(env)) {
    const telling = value.replace("whsec_", "").trim();
    assert(telling === "" || !message.includes(telling), message);
  }
}

Deno.test("chooseChannel() sends to a URL", () => {
  assertEquals(choose(WEBHOOK), { name: "webhook", lines: [] });
});

Deno.test("chooseChannel() sends e-mail", () => {
  assertEquals(choose(EMAIL), { name: "email", lines: [] });
});

for (const [text, perSecond] of [["", 2], ["10", 10]] as const) {
  Deno.test(`chooseChannel() sends ${perSecond} e-mails per second if EMAIL_REQUESTS_PER_SECOND is "${text}"`, () => {
    const env = { ...EMAIL, EMAIL_REQUESTS_PER_SECOND: text };
    assertEquals(chosen(env).channel?.perSecond, perSecond);
  });
}

for (const text of ["0", "-1", "0.5", "two", "1e3"]) {
  Deno.test(`chooseChannel() refuses EMAIL_REQUESTS_PER_SECOND=${text}`, () => {
    assertThrows(
      () => choose({ ...EMAIL, EMAIL_REQUESTS_PER_SECOND: text }),
      Error,
      "Cannot start: EMAIL_REQUESTS_PER_SECOND must be a whole number above 0",
    );
  });
}

for (const key of ["re_one\nre_two", "re_one\r\nre_two", "re_one\0"]) {
  Deno.test(`chooseChannel() refuses RESEND_API_KEY=${JSON.stringify(key)}`, () => {
    const env = { ...EMAIL, RESEND_API_KEY: key };
    const { message } = assertThrows(
      () => choose(env),
      Error,
      "Cannot start: RESEND_API_KEY contains a line break",
    );
    assert(!message.includes("re_"), message);
  });
}

Deno.test("chooseChannel() takes a key with a line break at its end", () => {
  const env = { ...EMAIL, RESEND_API_KEY: "re_unit\n" };
  assertEquals(choose(env), { name: "email", lines: [] });
});

Deno.test("chooseChannel() prefers the URL, and says so", () => {
  assertEquals(choose({ ...EMAIL, ...WEBHOOK }), {
    name: "webhook",
    lines: [[
      "warn",
      "RESEND_API_KEY is not used, because NOTIFICATION_URL is set: remove one of them",
    ]],
  });
});

for (const env of [{}, { NOTIFICATION_URL: "", RESEND_API_KEY: "" }]) {
  Deno.test(`chooseChannel() has none to choose, and says so once (${JSON.stringify(env)})`, () => {
    const { name, lines } = choose(env);
    assertEquals(name, undefined);
    assertEquals(lines.length, 1);
    assertEquals(lines[0]?.[0], "warn");
    assert(lines[0]?.[1].includes("no notification channel is configured"));
  });
}

for (
  const url of [
    "https://hooks.test",
    "https://hooks.test:8443/a?b=c",
    "http://127.0.0.1:8080/",
    "http://127.1.2.3/",
    "http://localhost:8080/hook",
    "http://[::1]:8080/hook",
  ]
) {
  Deno.test(`chooseChannel() takes ${url}`, () => {
    const env = { ...WEBHOOK, NOTIFICATION_URL: url };
    assertEquals(choose(env), { name: "webhook", lines: [] });
  });
}

for (
  const url of [
    "http://hooks.test/",
    "http://10.0.0.1/",
    "http://0.0.0.0/",
    "http://localhost.hooks.test/",
    "http://127.0.0.1.hooks.test/",
    "http://hooks.test/?127.0.0.1",
    "http://127.0.0.1@hooks.test/",
    "http://[::2]/",
    "ftp://127.0.0.1/",
    "file:///etc/hosts",
    "data:text/plain,x",
    "hooks.test/billing",
    "//hooks.test/billing",
    "https://",
    "no URL",
    " ",
    "https://user@hooks.test/",
    "https://user:pass@hooks.test/",
    "https://:pass@hooks.test/",
    "http://user:pass@127.0.0.1/",
  ]
) {
  Deno.test(`chooseChannel() refuses the URL "${url}"`, () => {
    assertRefused({ ...WEBHOOK, NOTIFICATION_URL: url }, "NOTIFICATION_URL");
  });
}

for (
  const [what, secret] of [
    ["is missing", undefined],
    ["is empty", ""],
    ["is blank", " "],
    ["lacks its prefix", SECRET.slice("whsec_".length)],
    ["has another prefix", SECRET.replace("whsec_", "whpk_")],
    ["has nothing behind its prefix", "whsec_"],
    ["is no base64", "whsec_not-base64-at-all-not-at-all"],
    ["has a space at its end", `${SECRET} `],
    ["has a line break at its end", `${SECRET}\n`],
    ["is cut off", SECRET.slice(0, -3)],
    ["has padding that does not fit", `${SECRET}=`],
    [
      "has padding in the middle",
      `whsec_${btoa("1234567890")}${btoa("12345678")}`,
    ],
    ["is of 11 bytes", `whsec_${btoa("12345678901")}`],
  ] as const
) {
  Deno.test(`chooseChannel() refuses a signing secret that ${what}`, () => {
    const { NOTIFICATION_URL } = WEBHOOK;
    assertRefused({
      NOTIFICATION_URL,
      ...(secret !== undefined && { NOTIFICATION_SIGNING_SECRET: secret }),
    }, "NOTIFICATION_SIGNING_SECRET");
  });
}

for (const length of [12, 13, 14, 24, 32, 64]) {
  Deno.test(`chooseChannel() takes a signing secret of ${length} bytes, with padding and without`, () => {
    const padded = `whsec_${btoa("x".repeat(length))}`;
    for (const secret of [padded, padded.replace(/=+$/, "")]) {
      const env = { ...WEBHOOK, NOTIFICATION_SIGNING_SECRET: secret };
      assertEquals(choose(env).name, "webhook");
      // The receiving side can use it as well.
      new Webhook(secret);
    }
  });
}

Deno.test("chooseChannel() refuses e-mail without a sender", () => {
  const { RESEND_API_KEY } = EMAIL;
  assertRefused({ RESEND_API_KEY }, "NOTIFICATION_FROM");
  assertRefused({ ...EMAIL, NOTIFICATION_FROM: "" }, "NOTIFICATION_FROM");
});
