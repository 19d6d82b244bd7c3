import type { EmailTexts } from "./email_texts.ts";

const ENTITIES: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "'": "&#39;",
};

/**
 * Returns an e-mail as text, and as HTML that every mail program shows: without external
 * content, and with colors only for the button, so that a dark mode can choose the rest.
 */
export function renderEmail(
  { subject, paragraphs, link, footer }: EmailTexts,
): Record<"subject" | "text" | "html", string> {
  return {
    subject,
    text: [...paragraphs, ...(link ? [link.url] : []), footer].join("\n\n"),
    html: [
      "<!DOCTYPE html>",
      '<html lang="en">',
      "  <head>",
      '    <meta charset="utf-8">',
      '    <meta name="color-scheme" content="light dark">',
      `    <title>${escape(subject)}</title>`,
      "  </head>",
      '  <body style="font-family: sans-serif; font-size: 16px; line-height: 1.5">',
      ...paragraphs.map((paragraph) => `    <p>${escape(paragraph)}</p>`),
      ...(link ? button(link) : []),
      `    <p style="font-size: 13px">${escape(footer)}</p>`,
      "  </body>",
      "</html>",
      "",
    ].join("\n"),
  };
}

function button({ label, url }: NonNullable<EmailTexts["link"]>): string[] {
  return [
    "    <p>",
    "      <a",
    `        href="${escape(url)}"`,
    '        style="display: inline-block; padding: 10px 20px; border-radius: 4px; background-color: #1f5fbf; color: #ffffff; text-decoration: none"',
    `      >${escape(label)}</a>`,
    "    </p>",
  ];
}

function escape(text: string): string {
  return text.replaceAll(/[&<>"']/g, (character) => ENTITIES[character]!);
}
