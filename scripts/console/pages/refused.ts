import { type Html, html } from "../html.ts";

/** The page for anyone whom the guard does not let in: it tells nothing. */
export function refusedPage(text: string): Html {
  return html`
    <!DOCTYPE html>
    <html lang="en">
      <head>
        <meta charset="utf-8">
        <meta name="viewport" content="width=device-width, initial-scale=1">
        <title>Billing console</title>
        <link rel="icon" href="/icon.svg">
        <link rel="stylesheet" href="/style.css">
      </head>
      <body>
        <main class="narrow">
          <h1>Not let in</h1>
          <p>${text}</p>
        </main>
      </body>
    </html>
  `;
}
