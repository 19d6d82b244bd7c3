import { type Html, html } from "../html.ts";

/** Leads a browser that was just let in to the first page. */
export function welcomePage(): Html {
  return html`
    <!DOCTYPE html>
    <html lang="en">
      <head>
        <meta charset="utf-8">
        <meta http-equiv="refresh" content="0; url=/">
        <title>Billing console</title>
        <link rel="stylesheet" href="/style.css">
      </head>
      <body>
        <main class="narrow">
          <h1>Let in</h1>
          <p><a href="/">Open the console</a></p>
        </main>
      </body>
    </html>
  `;
}
