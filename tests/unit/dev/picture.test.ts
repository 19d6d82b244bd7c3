import { assert, assertEquals } from "@std/assert";
import { draw, PICTURE, RECORD } from "../../../scripts/dev/picture.ts";
import { renderView } from "../../../scripts/dev/picture/render_view.ts";
import { terminalSvg } from "../../../scripts/dev/picture/terminal_svg.ts";

Deno.test("the README's picture is what start shows of the recorded lines", async () => {
  const [record, picture] = await Promise.all(
    [RECORD, PICTURE].map((file) => Deno.readTextFile(file)),
  );
  assertEquals(
    picture,
    draw(record!),
    "start prints something else now: run deno task picture --draw, and correct the picture's text in README.md",
  );
});

Deno.test("the recorded lines hold three events, and one fails with a next step", async () => {
  const lines = (await Deno.readTextFile(RECORD)).trim().split("\n")
    .map((line) => JSON.parse(line));
  const shown = renderView(lines, 80)
    .map((spans) => spans.map(({ text }) => text).join(""));
  assertEquals(
    shown.flatMap((line) => /\d (\d{3} \w+)/.exec(line)?.[1] ?? []),
    ["200 applied", "200 applied", "500 failed"],
  );
  assert(
    shown.some((line) => line.startsWith("    subscription_unknown: ")),
    shown.join("\n"),
  );
  for (const line of shown) assert(line.length < 80, line);
});

Deno.test("a picture of a terminal escapes text and keeps its columns", () => {
  const svg = terminalSvg([[
    { style: "red", text: "<a>  " },
    { style: undefined, text: '  b & "c"' },
  ]], { title: "a & b", columns: 20 });
  assertEquals(
    Array.from(
      svg.matchAll(/class="(\w+)" x="(\d+)" textLength="(\d+)"[^>]*>([^<]*)</g),
      (match) => match.slice(1),
    ),
    [
      ["red", "18", "27", "&#60;a&#62;"],
      ["plain", "81", "63", "b &#38; &#34;c&#34;"],
    ],
  );
  assert(svg.includes("<title>a &#38; b</title>"));
  assert(svg.includes("prefers-color-scheme: dark"));
});
