import { resolve } from "node:path";
import { parseArgs } from "node:util";
import type { Environment } from "../common/environment.ts";

// `supabase start` has its API and its database on these two as well.
const PORTS = {
  api: { standard: 54321, of: "the API" },
  db: { standard: 54322, of: "the database" },
  webhook: { standard: 54331, of: "the webhook's own process" },
  worker: { standard: 54332, of: "the worker's own process" },
  postgrest: { standard: 54333, of: "PostgREST" },
} as const;

type PortName = keyof typeof PORTS;

const PORT_NAMES = Object.keys(PORTS) as PortName[];

/** What the command line and the environment ask for. */
export type StartArguments = {
  help: boolean;
  ports: Record<PortName, number>;
  /** Nothing for the usual state folder. */
  dataDir: string | undefined;
};

const DATA_AND_HELP = `  ${"--data DIR".padEnd(20)}${
  "BILLING_STACK_DATA".padEnd(24)
}where the data is kept (.stack; for root,
${" ".repeat(46)}a folder below /var/tmp)
  --help              this text`;

/** What `start --help` prints. */
export const START_USAGE = `Runs the receiver on this machine, without Docker.

Usage: deno task start [options]

Options, each of which can be set in the environment instead:
${
  PORT_NAMES.map((name) =>
    `  ${`--${name}-port N`.padEnd(20)}${variableOf(name).padEnd(24)}${
      PORTS[name].of
    } (${PORTS[name].standard})`
  ).join("\n")
}
${DATA_AND_HELP}

The functions get supabase/functions/.env and, before it, the environment of
this command.
`;

/** What `reset --help` prints: it takes the ports of `start`, and ignores them. */
export const RESET_USAGE =
  `Deletes the local data: every record, event and notification of the local
stack. Ends what is left of a stack that crashed.

Usage: deno task reset [options]

Options, which can be set in the environment instead:
${DATA_AND_HELP}
`;

/**
 * Reads the arguments of `start` and `reset`; they win over the environment.
 *
 * @throws where one is unknown or no port
 */
export function parseStartArguments(
  args: string[],
  env: Environment,
): StartArguments {
  const { values } = parseArgs({
    args,
    options: {
      help: { type: "boolean" },
      data: { type: "string" },
      "api-port": { type: "string" },
      "db-port": { type: "string" },
      "webhook-port": { type: "string" },
      "worker-port": { type: "string" },
      "postgrest-port": { type: "string" },
    },
  });
  const ports = PORT_NAMES.map((name) => {
    const text = values[`${name}-port`] ?? env[variableOf(name)];
    return [name, portOf(name, text || `${PORTS[name].standard}`)] as const;
  });
  refuseDoubles(ports);
  const data = values.data ?? env["BILLING_STACK_DATA"];
  return {
    help: values.help ?? false,
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
  throw new Error(
    `Cannot use "${text}" for ${PORTS[name].of}: --${name}-port and ${
      variableOf(name)
    } take a number from 1 to 65535.`,
  );
}

function refuseDoubles(ports: (readonly [PortName, number])[]) {
  for (const [name, port] of ports) {
    const [other] = ports.find((it) => it[1] === port) ?? [name];
    if (other === name) continue;
    throw new Error(
      `Cannot use port ${port} for ${PORTS[name].of}: it is already that of ${
        PORTS[other].of
      }. Choose another: --${name}-port N`,
    );
  }
}
