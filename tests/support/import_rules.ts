/**
 * Who may import whom: a command imports its own folder, folders import
 * `scripts/common` and `scripts/events`, those import the deployed functions,
 * and the functions import nothing else. `scripts/dev`, `bench` and `tests` may
 * import anything, and nothing imports them. A folder of tests imports helpers
 * of its own and of `tests/support`. No files import each other in a circle.
 *
 * @module
 */

/** The relative imports of each file, by its path in the repository. */
export type ImportGraph = ReadonlyMap<string, readonly string[]>;

const WEBHOOK = "supabase/functions/billing-webhook/";
const WORKER = "supabase/functions/billing-worker/";
const SHARED = "supabase/functions/_shared/billing/";
const FUNCTIONS = [WEBHOOK, WORKER, SHARED];
const COMMON = ["scripts/common/", ...FUNCTIONS];
const EVENTS = ["scripts/events/"];

/** The first entry that a path begins with says what the file may import. */
const ALLOWED: readonly (readonly [from: string, to: readonly string[]])[] = [
  [SHARED, [SHARED]],
  [WEBHOOK, [WEBHOOK, SHARED]],
  [WORKER, [WORKER, SHARED]],
  ["scripts/common/", COMMON],
  ["scripts/events/", EVENTS],
  ["scripts/local_stack/", ["scripts/local_stack/", ...COMMON]],
  ["scripts/live_view/", ["scripts/live_view/", ...COMMON]],
  ["scripts/trigger/", ["scripts/trigger/", ...EVENTS, ...COMMON]],
  ["scripts/doctor/", ["scripts/doctor/", ...COMMON]],
  ["scripts/console/", ["scripts/console/", ...COMMON]],
  ["scripts/add/", ["scripts/add/", ...COMMON]],
  ["scripts/stripe_sync/", ["scripts/stripe_sync/", ...COMMON]],
  [
    "scripts/start.ts",
    ["scripts/local_stack/", "scripts/live_view/", ...COMMON],
  ],
  ["scripts/reset.ts", ["scripts/local_stack/", ...COMMON]],
  ["scripts/trigger.ts", ["scripts/trigger/", ...COMMON]],
  ["scripts/doctor.ts", ["scripts/doctor/", ...COMMON]],
  ["scripts/token.ts", COMMON],
  ["scripts/console.ts", ["scripts/console/", ...COMMON]],
  ["scripts/add.ts", ["scripts/add/", ...COMMON]],
  ["scripts/import.ts", ["scripts/stripe_sync/", ...COMMON]],
  ["scripts/reconcile.ts", ["scripts/stripe_sync/", ...COMMON]],
  ["scripts/dev/", [""]],
  ["bench/", [""]],
  ["tests/", [""]],
];

/** Returns each import that breaks a rule, with what to do about it. */
export function brokenImportRules(graph: ImportGraph): string[] {
  return [
    ...misplacedImports(graph),
    ...misplacedTestHelpers(graph),
    ...importCircles(graph),
  ];
}

function misplacedImports(graph: ImportGraph): string[] {
  return [...graph].flatMap(([file, imports]) => {
    const rule = ALLOWED.find(([from]) => file.startsWith(from));
    if (rule === undefined) {
      return [`${file} has no rule: add one in tests/support/import_rules.ts.`];
    }
    return imports
      .filter((path) => !rule[1].some((to) => path.startsWith(to)))
      .map((path) =>
        `${file} must not import ${path}. What several commands need belongs in scripts/common.`
      );
  });
}

function misplacedTestHelpers(graph: ImportGraph): string[] {
  return [...graph].flatMap(([file, imports]) => {
    const [top, folder] = file.split("/");
    if (top !== "tests") return [];
    const allowed = [`tests/${folder}/`, "tests/support/"];
    return imports
      .filter((path) => path.startsWith("tests/"))
      .filter((path) => !allowed.some((to) => path.startsWith(to)))
      .map((path) =>
        `${file} must not import ${path}. What several folders of tests need belongs in tests/support.`
      );
  });
}

function importCircles(graph: ImportGraph): string[] {
  const done = new Set<string>();
  const circles: string[] = [];
  function visit(file: string, path: readonly string[]) {
    const start = path.indexOf(file);
    if (start >= 0) {
      const circle = [...path.slice(start), file].join(" -> ");
      circles.push(
        `Files import each other in a circle: ${circle}. Move what they share into a file of its own.`,
      );
      return;
    }
    if (done.has(file)) return;
    for (const next of graph.get(file) ?? []) visit(next, [...path, file]);
    done.add(file);
  }
  for (const file of graph.keys()) visit(file, []);
  return circles;
}
