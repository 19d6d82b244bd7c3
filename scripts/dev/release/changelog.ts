/** https://keepachangelog.com: `## [1.0.0] - 2026-11-22`. */
const HEADING = /^## \[(\d+\.\d+\.\d+)\] - (\d{4}-\d{2}-\d{2})$/gm;

/** Returns the versions of a changelog with their dates, the newest first. */
export function releasesOf(changelog: string): (readonly [string, string])[] {
  return Array.from(
    changelog.matchAll(HEADING),
    ([, version = "", date = ""]) => [version, date] as const,
  );
}

/**
 * Returns the notes of a version: its section of the changelog.
 *
 * @throws {Error} If there is no section, or nothing in it.
 */
export function releaseNotes(changelog: string, version: string): string {
  const [, rest = ""] = changelog.split(`\n## [${version}] - `);
  const [section = ""] = rest.split(/\n## |\n\[[^\]]+\]: /);
  const notes = section.replace(/^.*\n/, "").trim();
  if (notes !== "") return `${notes}\n`;
  throw new Error(
    `CHANGELOG.md has no section for ${version}, such as: ## [${version}] - 2026-11-22`,
  );
}

if (import.meta.main) {
  const [version = ""] = Deno.args;
  const changelog = new URL("../../../CHANGELOG.md", import.meta.url);
  console.log(releaseNotes(await Deno.readTextFile(changelog), version));
}
