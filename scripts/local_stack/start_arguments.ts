import { resolve } from "node:path";
import { commandLine, UsageError } from "../common/cli.ts";
import type { Environment } from "../common/environment.ts";

/** The first two are those of `supabase start`. 0 is any free port. */
const DEFAULTS = {
  api: 54321,
  db: 54322,
  webhook: 54331,
  worker: 0,
  postgrest: 0,
};
const STANDARD_BASE = 54300;
const MAX_PORT = 65535;

type PortName = keyof typeof DEFAULTS;

const PORT_NAMES = Object.keys(DEFAULTS) as PortName[];

export type StartArguments = ReturnType<typeof parseStartArguments>;

export const DATA_OPTION = {
  "--data DIR":
    "where the data is kept, also BILLING_STACK_DATA (default: .stack; for root, a folder below /var/tmp)",
} as const;

const parse = commandLine({
  usage: "start",
  summary: "Runs the receiver on this machine, without Docker.",
  options: {
    "--port-base N":
      `the API's port is N+21, the database's N+22, the webhook's N+31; also BILLING_PORT_BASE (default: ${STANDARD_BASE})`,
    ...Object.fromEntries(PORT_NAMES.map((name) => [
      `--${name}-port PORT`,
      `default: ${DEFAULTS[name] || "a free one"}`,
    ])) as Record<`--${PortName}-port PORT`, string>,
    ...DATA_OPTION,
  },
  details:
    `On a terminal, it shows one line per delivery; otherwise, the functions' log
lines. A saved change of a function, or of supabase/functions/.env, is served at
once.

The functions get the environment of this command, and supabase/functions/.env
for variables that are not set there. The other commands find the stack by
themselves; if its data is elsewhere, they need the same BILLING_STACK_DATA. Two
stacks need two folders and two bases.`,
});

export function parseStartArguments(
  args: readonly string[],
  env: Environment,
) {
  const { values } = parse(args);
  const base = numberUpTo(
    MAX_PORT - DEFAULTS.webhook + STANDARD_BASE,
    (values["port-base"] ?? env["BILLING_PORT_BASE"]) || `${STANDARD_BASE}`,
    "--port-base or BILLING_PORT_BASE",
  );

  const options = new Map<number, string>();
  const ports = PORT_NAMES.map((name) => {
    const option = `--${name}-port`;
    const text = values[`${name}-port`];
    const standard = DEFAULTS[name] && DEFAULTS[name] - STANDARD_BASE + base;
    const port = text ? numberUpTo(MAX_PORT, text, option) : standard;

    const other = port && options.get(port);
    if (other) {
      throw new UsageError(
        `${other} and ${option} are both ${port}.`,
      );
    }
    options.set(port, option);
    return [name, port];
  });

  return {
    ports: Object.fromEntries(ports) as Record<PortName, number>,
    dataDir: dataFolder(values.data, env),
  };
}

export function dataFolder(
  option: string | undefined,
  env: Environment,
): string | undefined {
  const folder = option ?? env["BILLING_STACK_DATA"];
  return folder ? resolve(folder) : undefined;
}

function numberUpTo(max: number, text: string, option: string): number {
  const number = /^\d{1,5}$/.test(text) ? Number(text) : 0;
  if (number > 0 && number <= max) return number;
  throw new UsageError(
    `${option} takes a number from 1 to ${max}, not "${text}".`,
  );
}
