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

const FREE_FROM = 15_000;
const FREE_COUNT = 15_000;

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
      const port = wanted[name];
      const listener = port ? await takePort(name, port) : takeAnyPort();
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
  // Some systems let one listen beside a listener on all addresses.
  const listener = await isAnswered(address) ? undefined : tryToListen(address);
  if (listener) return listener;
  throw new Error(
    `Cannot start: port ${port} is already in use. Stop what uses it or choose another: --${name}-port N`,
  );
}

// Not one that the system chooses: those are also given to outgoing
// connections, and one might be before the part that it is for listens.
function takeAnyPort(): Deno.TcpListener {
  for (;;) {
    const port = FREE_FROM + Math.floor(Math.random() * FREE_COUNT);
    const listener = tryToListen({ hostname: "127.0.0.1", port });
    if (listener) return listener;
  }
}

function tryToListen(
  address: Deno.TcpListenOptions,
): Deno.TcpListener | undefined {
  try {
    return Deno.listen(address);
  } catch (error) {
    if (error instanceof Deno.errors.AddrInUse) return undefined;
    throw error;
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
