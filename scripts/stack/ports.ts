/** The ports of the stack, all on 127.0.0.1. */
export type StackPorts = {
  /** The gateway. */
  api: number;
  db: number;
  /** The functions' own processes. */
  webhook: number;
  worker: number;
  postgrest: number;
  /** Where PostgREST tells whether it is ready. */
  postgrestAdmin: number;
};

const NAMES = [
  "api",
  "db",
  "webhook",
  "worker",
  "postgrest",
  "postgrestAdmin",
] as const;

/**
 * Settles the ports before anything is started.
 *
 * @param wanted 0 or nothing for any free port
 * @throws where a wanted port is taken
 */
export async function choosePorts(
  wanted: Partial<StackPorts>,
): Promise<StackPorts> {
  const chosen: Partial<StackPorts> = {};
  const held: Deno.TcpListener[] = [];
  try {
    // The fixed ones first, and all held until the last is found, so that no
    // port is given out twice.
    const fixed = NAMES.filter((name) => wanted[name]);
    for (const name of new Set([...fixed, ...NAMES])) {
      const listener = await takePort(name, wanted[name] ?? 0);
      held.push(listener);
      chosen[name] = listener.addr.port;
    }
  } finally {
    for (const listener of held) listener.close();
  }
  return chosen as StackPorts;
}

async function takePort(
  name: keyof StackPorts,
  port: number,
): Promise<Deno.TcpListener> {
  const address = { hostname: "127.0.0.1", port };
  try {
    // Some systems let one listen beside a listener on all addresses.
    if (port !== 0 && await isAnswered(address)) {
      throw new Deno.errors.AddrInUse();
    }
    return Deno.listen(address);
  } catch (cause) {
    if (!(cause instanceof Deno.errors.AddrInUse)) throw cause;
    throw new Error(
      `Cannot start: port ${port} is already in use. Stop what uses it or choose another: --${name}-port N`,
      { cause },
    );
  }
}

async function isAnswered(address: Deno.ConnectOptions): Promise<boolean> {
  try {
    using _connection = await Deno.connect(address);
    return true;
  } catch {
    return false;
  }
}
