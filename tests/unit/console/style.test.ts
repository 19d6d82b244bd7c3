import { assert, assertEquals } from "@std/assert";
import { CHART_COLORS } from "../../../scripts/console/pages/chart.ts";

const CSS = await Deno.readTextFile(
  new URL("../../../scripts/console/style.css", import.meta.url),
);
/** WCAG 2.2, 1.4.3 (AA). */
const MIN_CONTRAST = 4.5;
const PAIRS = [
  ...["page", "surface", "sunken"].flatMap((ground) =>
    ["text", "muted", "accent"].map((ink) => [ink, ground] as const)
  ),
  ["bad", "surface"],
  ["bad", "page"],
  ["bad", "bad-soft"],
  ["good", "good-soft"],
  ["wait", "wait-soft"],
  ["on-accent", "accent"],
  ["text", "bad-soft"],
  ["text", "good-soft"],
] as const;

/** The colors of a scheme, by their names. */
function colors(scheme: "light" | "dark"): Record<string, string> {
  const [light = "", dark = ""] = CSS.matchAll(/:root \{([^}]+)\}/g)
    .map(([, body]) => body!).toArray();
  const found = (scheme === "light" ? light : dark)
    .matchAll(/--([a-z-]+): (#[0-9a-f]{6});/g);
  return Object.fromEntries(found.map(([, name, color]) => [name!, color!]));
}

for (const scheme of ["light", "dark"] as const) {
  Deno.test(`the ${scheme} colors of text can be told from the ground`, () => {
    const palette = colors(scheme);
    for (const [ink, ground] of PAIRS) {
      const ratio = contrast(palette[ink]!, palette[ground]!);
      assert(ratio >= MIN_CONTRAST, `${ink} on ${ground}: ${ratio.toFixed(2)}`);
    }
  });
}

for (const scheme of ["light", "dark"] as const) {
  Deno.test(`the chart has the ${scheme} colors of the style`, () => {
    const palette = colors(scheme);
    for (const [name, color] of Object.entries(CHART_COLORS[scheme])) {
      assertEquals(color, palette[name], name);
    }
  });
}

Deno.test("the style loads nothing", () => {
  assertEquals(/url\(|@import/.test(CSS), false);
});

/** The contrast ratio of WCAG. */
function contrast(a: string, b: string): number {
  const [high = 0, low = 0] = [luminance(a), luminance(b)].sort((x, y) =>
    y - x
  );
  return (high + 0.05) / (low + 0.05);
}

function luminance(color: string): number {
  const [r = 0, g = 0, b = 0] = [1, 3, 5].map((at) => {
    const part = parseInt(color.slice(at, at + 2), 16) / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}
