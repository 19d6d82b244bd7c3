import { HANDLED_TYPES } from "../../../supabase/functions/_shared/billing/formats/stripe.ts";
import { type FailureFilter, filterFields } from "../failure_filter.ts";
import { type ListedFailure, PAGE_SIZE } from "../failures.ts";
import { type Html, html } from "../html.ts";
import { link } from "../links.ts";
import { failureTable } from "./failure_table.ts";

/** One page of the failures that match a filter. */
export interface FailureList {
  readonly filter: FailureFilter;
  readonly failures: readonly ListedFailure[];
  /** Of all pages. */
  readonly count: number;
  /** From 1. */
  readonly page: number;
}

/** The list of failures, with its filter. */
export function failuresPage(
  list: FailureList,
  codes: readonly string[],
): Html {
  const { filter, failures, count } = list;
  const isOpen = filter.state === "open";
  return html`
    <h1>${isOpen ? "Open" : "Resolved"} failures</h1>
    ${filterForm(filter, codes)}
    <div class="line">
      <p class="count">${count === 1
        ? "1 failure matches."
        : `${count.toLocaleString("en")} failures match.`}</p>
      ${isOpen && count > 0
        ? html`<a class="button" href="${
          link(
            "/failures/retry",
            filterFields(filter),
          )
        }">Retry all that match…</a>`
        : ""}
    </div>
    ${failureTable(failures, {
      caption: "Failures, the newest first",
      empty: isOpen
        ? html`No open failure matches. Events that fail appear here.`
        : html`No resolved failure matches. They are kept for 90 days.`,
    })}
    ${pager(list)}
  `;
}

function filterForm(filter: FailureFilter, codes: readonly string[]): Html {
  return html`
    <details class="filter-box" ${Object.keys(filterFields(filter)).length > 0
      ? html`
        open
      `
      : ""}>
      <summary>Filter</summary>
      <form class="filter" action="/failures" method="get">
      ${select("state", "State", {
        options: ["open", "resolved"],
        chosen: filter.state,
      })}
      ${select("code", "Error code", {
        options: codes,
        chosen: filter.code,
        any: "any",
      })}
      ${select("type", "Event type", {
        options: HANDLED_TYPES,
        chosen: filter.type,
        any: "any",
      })}
      ${timeField("since", "Last failed since (UTC)", filter.since)}
      ${timeField("until", "and before (UTC)", filter.until)}
      <div class="buttons">
        <button>Filter</button>
        <a href="/failures">Clear</a>
      </div>
      </form>
    </details>
  `;
}

function select(
  name: string,
  label: string,
  { options, chosen, any }: {
    options: readonly string[];
    chosen: string | undefined;
    any?: string;
  },
): Html {
  const isUnknown = chosen !== undefined && !options.includes(chosen);
  return html`
    <p class="field">
      <label for="${name}">${label}</label>
      <select id="${name}" name="${name}">
        ${any === undefined ? "" : html`<option value="">${any}</option>`}
        ${[...options, ...(isUnknown ? [chosen] : [])].map((option) =>
          html`
            <option value="${option}" ${option === chosen
              ? html`
                selected
              `
              : ""}>${option}</option>
          `
        )}
      </select>
    </p>
  `;
}

function timeField(name: string, label: string, time?: string): Html {
  return html`
    <p class="field">
      <label for="${name}">${label}</label>
      <input type="datetime-local" id="${name}" name="${name}"
        value="${time
          ?.slice(0, 16) ?? ""}">
    </p>
  `;
}

function pager({ filter, count, page }: FailureList): Html {
  const last = Math.max(1, Math.ceil(count / PAGE_SIZE));
  if (last === 1) return html``;
  const to = (number: number) =>
    link("/failures", { ...filterFields(filter), page: `${number}` });
  return html`
    <nav class="pager" aria-label="Pages of the list">
      ${page > 1 ? html`<a rel="prev" href="${to(page - 1)}">Newer</a>` : ""}
      <span>Page ${page} of ${last}</span>
      ${page < last ? html`<a rel="next" href="${to(page + 1)}">Older</a>` : ""}
    </nav>
  `;
}
