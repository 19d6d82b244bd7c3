import { assert, assertEquals } from "@std/assert";
import { renderEmail } from "../../../supabase/functions/billing-worker/channels/render_email.ts";

const HOSTILE = `</p><script>alert("1")</script><img src='x' onerror=a>&lt;`;
const ESCAPED =
  "&lt;/p&gt;&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt;&lt;img src=&#39;x&#39; onerror=a&gt;&amp;lt;";

Deno.test("renderEmail() puts the same words into the text and the HTML", () => {
  const { subject, text, html } = renderEmail({
    subject: "Subject",
    paragraphs: ["One.", "Two:"],
    link: { label: "Pay", url: "https://pay.example.com/?a=1&b=2" },
    footer: "Footer",
  });
  assertEquals(subject, "Subject");
  assertEquals(
    text,
    "One.\n\nTwo:\n\nhttps://pay.example.com/?a=1&b=2\n\nFooter",
  );
  for (
    const part of [
      "<title>Subject</title>",
      "<p>One.</p>",
      "<p>Two:</p>",
      'href="https://pay.example.com/?a=1&amp;b=2"',
      ">Pay</a>",
      ">Footer</p>",
    ]
  ) {
    assertEquals(html.split(part).length, 2, part);
  }
});

Deno.test("renderEmail() has no button without a link", () => {
  const { text, html } = renderEmail({
    subject: "Subject",
    paragraphs: ["One."],
    link: undefined,
    footer: "Footer",
  });
  assertEquals(text, "One.\n\nFooter");
  assert(!html.includes("<a"), html);
});

Deno.test("renderEmail() escapes every word", () => {
  const { text, html } = renderEmail({
    subject: HOSTILE,
    paragraphs: [HOSTILE],
    link: { label: HOSTILE, url: `https://pay.example.com/${HOSTILE}` },
    footer: HOSTILE,
  });
  assertEquals(html.split(ESCAPED).length, 6);
  assertEquals(html.match(/<(?:script|img)/), null);
  assertEquals(text.split(HOSTILE).length, 4);
});

Deno.test("renderEmail() loads nothing from elsewhere", () => {
  const { html } = renderEmail({
    subject: "Subject",
    paragraphs: ["One."],
    link: { label: "Pay", url: "https://pay.example.com/" },
    footer: "Footer",
  });
  assertEquals(html.match(/<(?:img|link|script|iframe)|url\(|@import/), null);
  assertEquals(html.match(/https?:/g), ["https:"]);
});
