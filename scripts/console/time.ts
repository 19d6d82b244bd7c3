import { type Html, html } from "./html.ts";

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;

/** Returns a time of the database as `2026-11-22 00:31:05 UTC`. */
export function formatTime(text: string): string {
  const timeMs = Date.parse(text);
  if (Number.isNaN(timeMs)) return text; // such as infinity
  return `${new Date(timeMs).toISOString().slice(0, 19).replace("T", " ")} UTC`;
}

/** Returns how long ago a time is, or how far ahead. */
export function relativeTime(text: string, nowMs: number): string {
  const distanceMs = Date.parse(text) - nowMs;
  if (Number.isNaN(distanceMs)) return "";
  const away = Math.abs(distanceMs);
  const amount = away < MINUTE_MS
    ? `${Math.floor(away / 1000)} s`
    : away < HOUR_MS
    ? `${Math.floor(away / MINUTE_MS)} min`
    : away < 2 * DAY_MS
    ? `${Math.floor(away / HOUR_MS)} h`
    : `${Math.floor(away / DAY_MS)} days`;
  return distanceMs > 0 ? `in ${amount}` : `${amount} ago`;
}

/** Returns a time with its distance from now; a dash if there is none. */
export function timeElement(text: string | null | undefined): Html {
  if (!text) return html`<span class="muted">–</span>`;
  const distance = relativeTime(text, Date.now());
  return html`<time datetime="${text}">${formatTime(text)}</time>${
    distance === "" ? "" : html`
      <span class="muted nowrap">(${distance})</span>
    `
  }`;
}

/** Returns how long ago a time is, with the time itself for the mouse. */
export function ageElement(text: string | null): Html {
  if (!text) return html`<span class="muted">–</span>`;
  return html`<time datetime="${text}" title="${formatTime(text)}">${
    relativeTime(text, Date.now())
  }</time>`;
}
