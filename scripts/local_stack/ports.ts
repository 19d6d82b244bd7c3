import { isListening } from "../common/is_listening.ts";

const NAMES = [
  "api", // the gateway
  "db",
  "webhook", // the functions' own processes
  "worker",
  "postgrest",
  "postgrestAdmin", // where PostgREST says whether it is ready
] as const;

/** The ports of the stack, all on 127.0.0.1. */
export type StackPorts = Readonly<Record<typeof NAMES[number], number>>;

const FREE_FROM = 15_000;
const FREE_COUNT = 15_000;

/** Ports that nothing else gets until the part that needs them starts. */
export interface HeldPorts extends Disposable {
  readonly ports: StackPorts;
  /** To be called right before the parts listen there. */
  readonly free: (...names: (keyof StackPorts)[]) => void;
}

/**
 * Chooses all ports before anything is started, and holds them.
 *
 * @param wanted 0 or undefined for any free port
 * @throws {Error} if a wanted port is in use
 */
export async function holdPorts(
  wanted: Partial<StackPorts>,
): Promise<HeldPorts> {
  const held = new Map<keyof StackPorts, Deno.TcpListener>();
  function free(...names: (keyof StackPorts)[]) {
    for (const name of names) {
      held.get(name)?.close();
      held.delete(name);
    }
  }
  try {
    // Fixed ports first, so that no port is chosen twice.
    const fixed = NAMES.filter((name) => wanted[name]);
    for (const name of new Set([...fixed, ...NAMES])) {
      const port = wanted[name];
      held.set(name, port ? await takePort(name, port) : takeAnyPort());
    }
  } catch (error) {
    free(...NAMES);
    throw error;
  }
  const ports = Object.fromEntries(
    [...held].map(([name, { addr }]) => [name, addr.port]),
  ) as StackPorts;
  return { ports, free, [Symbol.dispose]: () => free(...NAMES) };
}

/** Chooses all ports for parts that start soon. Others may get them before. */
export async function choosePorts(
  wanted: Partial<StackPorts>,
): Promise<StackPorts> {
  using held = await holdPorts(wanted);
  return held.ports;
}

async function takePort(
  name: keyof StackPorts,
  port: number,
): Promise<Deno.TcpListener> {
  // Some systems allow this listener beside one on all addresses.
  const listener = await isListening(port) ? undefined : tryToListen(port);
  if (listener) return listener;
  throw new Error(
    `Cannot start: port ${port} is already in use. Stop what uses it or choose another: --${name}-port N`,
  );
}

// Not a port that the system chooses: it also gives those to outgoing
// connections, possibly before the part that needs the port listens.
function takeAnyPort(): Deno.TcpListener {
  for (;;) {
    const port = FREE_FROM + Math.floor(Math.random() * FREE_COUNT);
    const listener = tryToListen(port);
    if (listener) return listener;
  }
}

function tryToListen(port: number): Deno.TcpListener | undefined {
  try {
    return Deno.listen({ hostname: "127.0.0.1", port });
  } catch (error) {
    if (error instanceof Deno.errors.AddrInUse) return undefined;
    throw error;
  }
}
