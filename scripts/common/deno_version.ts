/** Refuses a Deno that is too old, which would fail with an unclear error. */
import manifest from "../../package.json" with { type: "json" };

requireDeno("2.7.13");

export function requireDeno(least: string): void {
  const { deno } = Deno.version;
  if (least.localeCompare(deno, "en", { numeric: true }) <= 0) return;
  console.error(`This needs Deno ${least} or newer, and this is Deno ${deno}.
Upgrade it, or type "npx -y deno@${manifest.optionalDependencies.deno}" instead of "deno".`);
  Deno.exit(1);
}
