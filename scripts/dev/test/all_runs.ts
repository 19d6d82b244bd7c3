import { readdirSync } from "node:fs";
import { REPOSITORY } from "../../common/how_started.ts";
import { EDGE_DENO_VERSION } from "./downloads.ts";
import { BROWSER_TESTS, type Run } from "./named_runs.ts";

/** The tests that need neither a database nor what is downloaded later. */
export const UNIT_TESTS: Run = { name: "unit tests", files: ["tests/unit"] };

const CATALOGUE = "tests/catalogue";
const INTEGRATION = "tests/integration";
/** Of these, the ones that need no served function. */
const WITHOUT_FUNCTIONS = [
  "tests/integration/console_repair.test.ts",
  "tests/integration/privileges.test.ts",
  "tests/integration/runbook.test.ts",
  "tests/integration/worker_pace.test.ts",
];

/**
 * Returns all runs that need a stack, in the order in which they begin: what
 * takes long comes first, so that the lanes end together.
 *
 * Integration tests have the functions served by the Deno that Supabase's
 * runtime is built on. The catalogue of bad input also has them served by the
 * Deno that runs the tests, as on a local stack: how a broken request is answered
 * depends on the server. The other runs use the latter only, and so do all runs
 * on macOS (.github/workflows/ci.yml).
 *
 * @param edgeDeno The Deno that Supabase's runtime is built on.
 */
export function allRuns(edgeDeno: string): readonly Run[] {
  return [
    { name: "deployment", files: ["tests/deploy"] },
    {
      name: "SQL and properties",
      files: ["tests/pgtap.test.ts", "tests/property"],
    },
    {
      name: `integration and catalogue, served by Deno ${EDGE_DENO_VERSION}`,
      files: withFunctions(),
      denoPath: edgeDeno,
    },
    { name: "import and reconcile", files: ["tests/stripe_sync"] },
    { name: "faults", files: ["tests/faults"] },
    {
      name: "catalogue, and integration without functions",
      files: [CATALOGUE, ...WITHOUT_FUNCTIONS],
    },
    { name: "pages", files: ["tests/docs"] },
    BROWSER_TESTS,
    { name: "start at a terminal", files: ["tests/start"] },
    { name: "fuzzing", files: ["tests/fuzz"] },
  ];
}

/** By name: of several folders, `deno test --ignore` looks at the first alone. */
function withFunctions(): string[] {
  const integration = readdirSync(`${REPOSITORY}/${INTEGRATION}`)
    .filter((name) => name.endsWith(".test.ts"))
    .map((name) => `${INTEGRATION}/${name}`)
    .filter((file) => !WITHOUT_FUNCTIONS.includes(file));
  return [...integration, CATALOGUE];
}
