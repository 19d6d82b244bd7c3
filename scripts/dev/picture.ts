/**
 * `deno task picture`: makes the README's picture of the live view. Runs `start`
 * and three `trigger`, keeps the log lines that come of it in
 * docs/images/live_view.jsonl, and draws what `start` shows of them on a terminal
 * of 80 columns. With `--draw`, draws the lines that were kept.
 *
 * @module
 */
import { recordStart, type Trigger } from "./picture/record_start.ts";
import { type RecordedLine, renderView } from "./picture/render_view.ts";
import { terminalSvg } from "./picture/terminal_svg.ts";

const IMAGES = new URL("../../docs/images/", import.meta.url);

/** Where the log lines are kept. */
export const RECORD = new URL("live_view.jsonl", IMAGES);

/** The picture. */
export const PICTURE = new URL("live_view.svg", IMAGES);

const COLUMNS = 80;

/** One that is applied, one that notifies the account, and one that fails. */
const TRIGGERS: readonly Trigger[] = [
  { args: ["customer.subscription.created"], until: '"applied":1' },
  { args: ["invoice.payment_failed"], until: "notifications delivered" },
  {
    args: ["customer.subscription.updated", "--subscription", "sub_new"],
    until: "alerts delivered",
  },
];

if (import.meta.main) {
  if (!Deno.args.includes("--draw")) {
    const lines = await recordStart(TRIGGERS);
    const text = lines.map((line) => `${JSON.stringify(line)}\n`).join("");
    await Deno.writeTextFile(RECORD, text);
  }
  await Deno.writeTextFile(PICTURE, draw(await Deno.readTextFile(RECORD)));
}

/** Returns the picture of recorded lines, one JSON object per line. */
export function draw(record: string): string {
  const lines: RecordedLine[] = record.trim().split("\n")
    .map((line) => JSON.parse(line));
  return terminalSvg(renderView(lines, COLUMNS), {
    title: "deno task start",
    columns: COLUMNS,
  });
}
