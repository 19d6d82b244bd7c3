import { resolve } from "node:path";
import {
  type CommandLine,
  parseCommandLine,
  UsageError,
} from "../common/cli.ts";
import type { Environment } from "../common/environment.ts";

/** With it, the first two ports are those of `supabase start`. */
const STANDARD_BASE = 54_300;

/** How far each port is above the base. */
const OFFSETS = { api: 21, db: 22, webhook: 31, worker: 32, postgrest: 33 };

type PortName = keyof typeof OFFSETS;

const PORT_NAMES = Object.keys(OFFSETS) as PortName[];

/** What the command line and the environment ask for. */
export interface StartArguments {
  readonly ports: Readonly<Record<PortName, number>>;
  /** Undefined for the usual state folder. */
  readonly dataDir: string | undefined;
  /** Whether log lines are printed as they are, on a terminal too. */
  readonly json: boolean;
}

const BASE_VARIABLE = "BILLING_PORT_BASE";

/** The option of `start` and `reset`. */
export const DATA_OPTION = {
  "--data DIR":
    "where the data is kept, also BILLING_STACK_DATA (default: .stack; for root, a folder below /var/tmp)",
} as const;

const START = {
  usage: "start",
  summary: "Runs the receiver on this machine, without Docker.",
  options: {
    "--port-base N":
      `move all ports: the API to N+21, the database to N+22, and so on; also ${BASE_VARIABLE} (default: ${STANDARD_BASE})`,
    ...portOptions(),
    ...DATA_OPTION,
    "--json":
      "print the functions' log lines as they are; so it does if the output is not a terminal",
  },
  details:
    `On a terminal, it shows one line per delivery: time, status, outcome, type,
subscription, event and milliseconds. A saved change of a function, or of
supabase/functions/.env, is served at once. A function that ends is started
again.

The functions get the environment of this command, and for variables that are
not set there, supabase/functions/.env. The other commands find the stack by
themselves; if its data is elsewhere, they need the same BILLING_STACK_DATA. Two
stacks need two folders and two bases.

Exit code: 0 if it was stopped, 1 if it could not start or if Postgres or
PostgREST ended, 2 for a wrong command line.`,
} as const satisfies CommandLine;

/**
 * Reads the arguments of `start`; they override the environment.
 *
 * @throws {HelpRequest}
 * @throws {UsageError}
 */
export function parseStartArguments(
  args: readonly string[],
  env: Environment,
): StartArguments {
  const { values } = parseCommandLine(args, START);
  const base = baseOf(values["port-base"] ?? env[BASE_VARIABLE]);
  const ports = PORT_NAMES.map((name) => {
    const text = values[`${name}-port`] ?? env[variableOf(name)];
    return [name, portOf(name, text || `${base + OFFSETS[name]}`)] as const;
  });
  refuseSharedPorts(ports);
  return {
    ports: Object.fromEntries(ports) as Record<PortName, number>,
    dataDir: dataFolder(values.data, env),
    json: values.json ?? false,
  };
}

/** Returns the state folder that is asked for; undefined for the usual one. */
export function dataFolder(
  option: string | undefined,
  env: Environment,
): string | undefined {
  const folder = option ?? env["BILLING_STACK_DATA"];
  return folder ? resolve(folder) : undefined;
}

function portOptions() {
  return Object.fromEntries(
    PORT_NAMES.map((name) => [`--${name}-port PORT`, portText(name)]),
  ) as Record<`--${PortName}-port PORT`, string>;
}

function portText(name: PortName): string {
  return `also ${variableOf(name)} (default: ${STANDARD_BASE + OFFSETS[name]})`;
}

function variableOf(name: PortName): string {
  return `BILLING_${name.toUpperCase()}_PORT`;
}

function baseOf(text: string | undefined): number {
  return numberUpTo(
    65_535 - Math.max(...Object.values(OFFSETS)),
    text || `${STANDARD_BASE}`,
    `--port-base and ${BASE_VARIABLE}`,
  );
}

function portOf(name: PortName, text: string): number {
  return numberUpTo(65_535, text, `--${name}-port and ${variableOf(name)}`);
}

function numberUpTo(most: number, text: string, names: string): number {
  const number = /^\d{1,5}$/.test(text) ? Number(text) : 0;
  if (number > 0 && number <= most) return number;
  throw new UsageError(
    `${names} take a number from 1 to ${most}, not "${text}".`,
  );
}

function refuseSharedPorts(ports: readonly (readonly [PortName, number])[]) {
  for (const [name, port] of ports) {
    const [other] = ports.find((it) => it[1] === port) ?? [name];
    if (other === name) continue;
    throw new UsageError(
      `--${other}-port and --${name}-port are both ${port}. Choose another port for one of them.`,
    );
  }
}
