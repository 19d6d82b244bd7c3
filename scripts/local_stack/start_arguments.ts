import { resolve } from "node:path";
import {
  type CommandLine,
  parseCommandLine,
  UsageError,
} from "../common/cli.ts";
import type { Environment } from "../common/environment.ts";

// `supabase start` uses the first two as well.
const STANDARD_PORTS = {
  api: 54321,
  db: 54322,
  webhook: 54331,
  worker: 54332,
  postgrest: 54333,
};

type PortName = keyof typeof STANDARD_PORTS;

const PORT_NAMES = Object.keys(STANDARD_PORTS) as PortName[];

/** What the command line and the environment ask for. */
export interface StartArguments {
  readonly ports: Readonly<Record<PortName, number>>;
  /** Undefined for the usual state folder. */
  readonly dataDir: string | undefined;
}

const DATA_OPTION = {
  "--data DIR":
    "where the data is kept, also BILLING_STACK_DATA (default: .stack; for root, a folder below /var/tmp)",
} as const;

const START = {
  usage: "start",
  summary: "Runs the receiver on this machine, without Docker.",
  options: { ...portOptions(portText), ...DATA_OPTION },
  details:
    `The functions get the environment of this command, and for variables that are
not set there, supabase/functions/.env.

Exit code: 0 if it was stopped, 1 if it could not start or a part of it ended, 2
for a wrong command line.`,
} as const satisfies CommandLine;

/** The command line of `reset`: it accepts the ports of `start`, unused. */
export const RESET = {
  usage: "reset",
  summary:
    `Deletes the local data: every record, event and notification of the local
stack. Ends processes that a crashed stack left behind.`,
  options: { ...portOptions(() => ""), ...DATA_OPTION },
  details:
    "Exit code: 0 if the data is deleted, 1 if not, 2 for a wrong command line.",
} as const satisfies CommandLine;

/**
 * Reads the arguments of `start` or `reset`; they override the environment.
 *
 * @throws {HelpRequest}
 * @throws {UsageError}
 */
export function parseStartArguments(
  args: readonly string[],
  env: Environment,
  command: CommandLine<typeof START.options> = START,
): StartArguments {
  const { values } = parseCommandLine(args, command);
  const ports = PORT_NAMES.map((name) => {
    const text = values[`${name}-port`] ?? env[variableOf(name)];
    return [name, portOf(name, text || `${STANDARD_PORTS[name]}`)] as const;
  });
  refuseSharedPorts(ports);
  const data = values.data ?? env["BILLING_STACK_DATA"];
  return {
    ports: Object.fromEntries(ports) as Record<PortName, number>,
    dataDir: data ? resolve(data) : undefined,
  };
}

function portOptions(textOf: (name: PortName) => string) {
  return Object.fromEntries(
    PORT_NAMES.map((name) => [`--${name}-port PORT`, textOf(name)]),
  ) as Record<`--${PortName}-port PORT`, string>;
}

function portText(name: PortName): string {
  return `also ${variableOf(name)} (default: ${STANDARD_PORTS[name]})`;
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
      `--${other}-port and --${name}-port are both ${port}. Choose another port for one of them.`,
    );
  }
}
