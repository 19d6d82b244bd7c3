/** Refuses a Deno that is too old, which would fail with an unclear error. */
import manifest from "../../package.json" with { type: "json" };

requireDeno("2.7.13");

export function requireDeno(minimum: string): void {
  const { deno } = Deno.version;
  if (minimum.localeCompare(deno, "en", { numeric: true }) <= 0) return;
  console.error(`This needs Deno ${minimum} or newer, but this is Deno ${deno}.
Upgrade it, or type "npx -y deno@${manifest.optionalDependencies.deno}" instead of "deno".`);
  Deno.exit(1);
}
