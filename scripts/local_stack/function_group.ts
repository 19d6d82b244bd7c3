import type { Environment } from "../common/environment.ts";
import { choosePorts, type StackPorts } from "./ports.ts";
import { functionService, type ServeOptions } from "./serve_functions.ts";
import { createKeptService } from "./kept_service.ts";
import type { Service, ServiceObserver } from "./service.ts";

type FunctionPorts = Pick<StackPorts, "webhook" | "worker">;

const NAMES = ["webhook", "worker"] as const;

/** The processes of both functions. */
interface Served {
  readonly ports: FunctionPorts;
  readonly services: readonly Service[];
}

/** How a reload hands over from the old processes to the new ones. */
export interface Reload {
  /** The settings for the new ones, instead of those before. */
  readonly env: Environment;
  /** Called as soon as the new code serves every new request. */
  readonly onServed: () => void;
  /** Waits until nobody waits for an answer from that port. */
  readonly leave: (port: number) => Promise<void>;
}

/** The webhook and the worker, which start and stop together. */
export interface FunctionGroup {
  /** Where new requests go. */
  readonly ports: () => FunctionPorts;
  readonly start: (signal?: AbortSignal) => Promise<void>;
  readonly stop: () => Promise<void>;
  /** Stops the functions and serves them again, with other options. */
  readonly restart: (changes?: Partial<ServeOptions>) => Promise<void>;
  /**
   * Serves the code as it is now, without a gap, with other settings.
   *
   * @throws {Error} if it does not start; the old code goes on
   */
  readonly reload: (reload: Reload) => Promise<void>;
}

/** Returns a group that is not started yet, and serves on its own ports. */
export function createFunctionGroup(
  first: ServeOptions,
  { ports: home, onLog }: {
    readonly ports: FunctionPorts;
    readonly onLog: ServiceObserver["onLog"];
  },
): FunctionGroup {
  let settings = first;
  let current: Served = { ports: home, services: [] };
  const all = new Set<Served>();
  let stopping = new AbortController();

  function createServed(ports: FunctionPorts, to = onLog): Served {
    const services = NAMES.map((name) =>
      createKeptService(
        functionService(`billing-${name}`, { ...settings, port: ports[name] }),
        to,
      )
    );
    const served = { ports, services };
    all.add(served);
    return served;
  }

  async function start(signal?: AbortSignal) {
    stopping = new AbortController();
    current = createServed(home);
    await Promise.all(current.services.map((one) => one.start(signal)));
  }

  async function end(served: Served) {
    await Promise.all(served.services.map((one) => one.stop()));
    all.delete(served);
  }

  async function stop() {
    stopping.abort();
    await Promise.all(Array.from(all, end));
  }

  async function restart(changes: Partial<ServeOptions> = {}) {
    await stop();
    settings = {
      denoPath: changes.denoPath ?? settings.denoPath,
      env: { ...settings.env, ...changes.env },
    };
    await start();
  }

  async function moveTo(
    ports: FunctionPorts,
    { onServed, leave }: Pick<Reload, "onServed" | "leave">,
  ) {
    const { signal } = stopping;
    const old = current;
    // What a process says that never serves is in the error of its start.
    const early: [line: string, source: string][] = [];
    let log: ServiceObserver["onLog"] = (...line) => early.push(line);
    const next = createServed(ports, (...line) => log(...line));
    try {
      await Promise.all(next.services.map((one) => one.start(signal)));
    } catch (error) {
      await end(next);
      throw error;
    }
    log = onLog;
    for (const line of early) log(...line);
    current = next;
    onServed();
    await Promise.all(NAMES.map((name) => leave(old.ports[name])));
    if (!signal.aborted) await end(old);
  }

  // The new code starts beside the old, so a mistake in it stops nothing. Then
  // it moves to the group's own ports, which are those that people know.
  async function reload({ env, ...options }: Reload) {
    settings = { ...settings, env };
    if (current.ports === home) await moveTo(await choosePorts({}), options);
    if (stopping.signal.aborted) return;
    await moveTo(home, { ...options, onServed: () => {} });
  }

  return { ports: () => current.ports, start, stop, restart, reload };
}
