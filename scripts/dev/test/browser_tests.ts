/**
 * The tests in a browser. They have an import map and a lock file of their own,
 * so that `deno install`, and with it `start`, need not download the browser.
 *
 * @module
 */

/** The folder of the tests. */
export const BROWSER_FOLDER = "tests/console";

/** The file that imports all that they import. */
export const BROWSER_ENTRY = `${BROWSER_FOLDER}/console.test.ts`;

/** The options with which Deno reads their packages, and no others. */
export const BROWSER_OPTIONS = [
  "--no-config",
  "--node-modules-dir=none",
  `--import-map=${BROWSER_FOLDER}/import_map.json`,
  `--lock=${BROWSER_FOLDER}/deno.lock`,
] as const;
