import { isListening } from "../common/loopback.ts";

const NAMES = [
  "api", // the gateway
  "db",
  "webhook", // the functions' own processes
  "worker",
  "postgrest",
] as const;

type PortName = typeof NAMES[number];

export type StackPorts = Readonly<Record<PortName, number>>;

/** Below what Linux, from 32768, and macOS give to outgoing connections at any time. */
const FREE_FROM = 15_000;
const FREE_COUNT = 15_000;

/**
 * Chooses all ports before anything starts, and holds each until it is freed, right
 * before a part listens there. A wanted port of 0 is any free port.
 */
export async function holdPorts(wanted: Partial<StackPorts>) {
  using held = new DisposableStack();
  const listeners: Partial<Record<PortName, Deno.TcpListener>> = {};

  // Wanted ports first, so that no port is chosen twice.
  const wantedFirst = NAMES.toSorted((a, b) => +!wanted[a] - +!wanted[b]);
  for (const name of wantedFirst) {
    listeners[name] = held.use(await takePort(name, wanted[name]));
  }

  const ports = Object.fromEntries(
    NAMES.map((name) => [name, listeners[name]!.addr.port]),
  ) as StackPorts;
  const owned = held.move();
  return {
    ports,
    free: (...names: PortName[]) => {
      for (const name of names) listeners[name]?.[Symbol.dispose]();
    },
    [Symbol.dispose]: () => owned.dispose(),
  };
}

async function takePort(name: PortName, wanted?: number) {
  for (;;) {
    const port = wanted || FREE_FROM + Math.floor(Math.random() * FREE_COUNT);
    try {
      // Some systems allow a listener beside one on all addresses.
      if (!await isListening(port)) {
        return Deno.listen({ hostname: "127.0.0.1", port });
      }
    } catch (error) {
      if (!(error instanceof Deno.errors.AddrInUse)) throw error;
    }
    if (!wanted) continue;
    throw new Error(
      `Cannot start: port ${port} is already in use. Stop what uses it or choose another: --${name}-port N, or --port-base N for all`,
    );
  }
}
