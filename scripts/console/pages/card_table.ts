import { type Html, html } from "../html.ts";

/** What the columns show, by their names. A number is aligned as one. */
export type Columns<Row> = Readonly<
  Record<string, (row: Row) => Html | number>
>;

/** A table; on a narrow screen, each of its rows is a card. */
export function cardTable<Row>(
  rows: readonly Row[],
  { columns, caption }: { columns: Columns<Row>; caption?: string },
): Html {
  const cells = rows.map((row) =>
    Object.entries(columns).map(([name, show]) => [name, show(row)] as const)
  );
  return html`
    <table class="cards">
      ${caption && html`
        <caption class="for-readers">${caption}</caption>
      `}
      <thead>
        <tr>${cells[0]?.map(([name, shown]) =>
          html`
            <th scope="col" class="${classOf(shown)}">${name}</th>
          `
        )}</tr>
      </thead>
      <tbody>${cells.map((row) =>
        html`
          <tr>${row.map(([name, shown]) =>
            html`
              <td data-label="${name}" class="${classOf(shown)}">${contentOf(
                shown,
              )}</td>
            `
          )}</tr>
        `
      )}</tbody>
    </table>
  `;
}

function classOf(shown: Html | number): string {
  return typeof shown === "number" ? "number" : "";
}

function contentOf(shown: Html | number): Html | string {
  return typeof shown === "number" ? shown.toLocaleString("en") : shown;
}
