import { resolve } from "node:path";
import {
  type CommandLine,
  type Option,
  parseCommandLine,
  UsageError,
} from "../common/cli.ts";
import type { Environment } from "../common/environment.ts";

// `supabase start` uses the first two for its API and its database, too.
const PORTS = {
  api: { standard: 54321, of: "the API" },
  db: { standard: 54322, of: "the database" },
  webhook: { standard: 54331, of: "the webhook function" },
  worker: { standard: 54332, of: "the worker function" },
  postgrest: { standard: 54333, of: "PostgREST" },
} as const;

type PortName = keyof typeof PORTS;
type PortOption = `${PortName}-port`;

const PORT_NAMES = Object.keys(PORTS) as PortName[];

/** What the command line and the environment ask for. */
export interface StartArguments {
  readonly ports: Readonly<Record<PortName, number>>;
  /** Undefined for the usual state folder. */
  readonly dataDir: string | undefined;
}

const DATA_OPTION = {
  type: "string",
  value: "DIR",
  help:
    "where the data is kept, also BILLING_STACK_DATA (default: .stack; for root, a folder below /var/tmp)",
} as const;

const START = {
  task: "start",
  summary: "Runs the receiver on this machine, without Docker.",
  options: {
    ...portOptions({ isListed: true }),
    data: DATA_OPTION,
  },
  details:
    `The functions get the environment of this command, and for variables that are
not set there, supabase/functions/.env.

Exit code: 0 if it was stopped, 1 if it could not start or a part of it ended, 2
for a wrong command line.`,
} as const satisfies CommandLine;

const RESET = {
  task: "reset",
  summary:
    `Deletes the local data: every record, event and notification of the local
stack. Ends processes that a crashed stack left behind.`,
  // It accepts the options of `start`, so that one can be typed as the other.
  options: { ...portOptions({ isListed: false }), data: DATA_OPTION },
  details:
    "Exit code: 0 if the data is deleted, 1 if not, 2 for a wrong command line.",
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
  return startArguments(values, env);
}

/**
 * Reads the arguments of `reset`; they override the environment.
 *
 * @throws {HelpRequest}
 * @throws {UsageError}
 */
export function parseResetArguments(
  args: readonly string[],
  env: Environment,
): StartArguments {
  const { values } = parseCommandLine(args, RESET);
  return startArguments(values, env);
}

function portOptions(
  { isListed }: { isListed: boolean },
): Record<PortOption, Option & { readonly type: "string" }> {
  return Object.fromEntries(PORT_NAMES.map((name) => {
    const { of, standard } = PORTS[name];
    const help = `the port of ${of}, also ${
      variableOf(name)
    } (default: ${standard})`;
    const listed = isListed ? { help } : {};
    return [`${name}-port`, { type: "string", value: "PORT", ...listed }];
  })) as Record<PortOption, Option & { readonly type: "string" }>;
}

function startArguments(
  values: Readonly<Record<PortOption | "data", string | undefined>>,
  env: Environment,
): StartArguments {
  const ports = PORT_NAMES.map((name) => {
    const text = values[`${name}-port`] ?? env[variableOf(name)];
    return [name, portOf(name, text || `${PORTS[name].standard}`)] as const;
  });
  refuseSharedPorts(ports);
  const data = values.data ?? env["BILLING_STACK_DATA"];
  return {
    ports: Object.fromEntries(ports) as Record<PortName, number>,
    dataDir: data ? resolve(data) : undefined,
  };
}

function variableOf(name: PortName): string {
  return `BILLING_${name.toUpperCase()}_PORT`;
}

function portOf(name: PortName, text: string): number {
  const port = /^\d{1,5}$/.test(text) ? Number(text) : 0;
  if (port > 0 && port <= 65_535) return port;
  throw new UsageError(
    `--${name}-port and ${
      variableOf(name)
    } take a number from 1 to 65535, not "${text}".`,
  );
}

function refuseSharedPorts(ports: readonly (readonly [PortName, number])[]) {
  for (const [name, port] of ports) {
    const [other] = ports.find((it) => it[1] === port) ?? [name];
    if (other === name) continue;
    throw new UsageError(
      `${PORTS[other].of} and ${
        PORTS[name].of
      } cannot both use port ${port}. Choose another: --${name}-port PORT.`,
    );
  }
}
