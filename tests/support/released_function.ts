/**
 * Functions of the last published version beside those of this one, as between
 * two deployments.
 *
 * @module
 */
import {
  readKeptVersion,
  RELEASED_FUNCTIONS,
  releasedOptions,
} from "../../scripts/dev/release/released_functions.ts";
import { functionService } from "../../scripts/local_stack/serve_functions.ts";
import type { ServeOptions } from "../../scripts/local_stack/serve_functions.ts";
import type { ServiceSpec } from "../../scripts/local_stack/service.ts";
import { releasedFunction } from "./test_environment.ts";

const RELEASED_VERSION = await readKeptVersion();

/** Returns whether a function is served as the last release had it. */
export function isReleased(name: string): boolean {
  return releasedFunction() === name;
}

/**
 * Returns whether the tests run with a function from before a version. What that
 * version has added to it cannot be tested then.
 *
 * @param name The function; by default any.
 */
export function isBefore(version: string, name = releasedFunction()): boolean {
  const order = RELEASED_VERSION.localeCompare(version, "en", {
    numeric: true,
  });
  return name !== undefined && isReleased(name) && order < 0;
}

/** Returns how to serve a function of the release: as the platform does. */
export function releasedService(
  name: string,
  options: ServeOptions & { readonly port: number },
): ServiceSpec {
  const spec = functionService(name, options);
  const folder = `${RELEASED_FUNCTIONS}/${name}`;
  return {
    ...spec,
    args: [
      ...["serve", "--quiet", "--no-prompt", "--allow-net", "--allow-env"],
      ...["--cached-only", ...releasedOptions(name)],
      ...["--host", "127.0.0.1", "--port", `${options.port}`],
      `${folder}/index.ts`,
    ],
  };
}
