/** The functions, and where `deno task build` writes each of them as one file. */
import { REPOSITORY } from "./environment.ts";

export const FUNCTIONS = ["billing-webhook", "billing-worker"];

export function builtFile(name: string): string {
  return `${REPOSITORY}/dist/${name}/index.mjs`;
}

/** Options with which Deno serves such a file, which needs nothing besides. */
export const BUILT_OPTIONS = [
  "--no-config",
  "--no-lock",
  "--no-npm",
  "--no-remote",
];
