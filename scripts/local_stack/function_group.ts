import type { StackPorts } from "./ports.ts";
import { functionService, type ServeOptions } from "./serve_functions.ts";
import {
  createService,
  type Service,
  type ServiceObserver,
} from "./service.ts";

/** The functions of a stack, which start and stop together. */
export interface FunctionGroup {
  readonly start: (signal?: AbortSignal) => Promise<void>;
  readonly stop: () => Promise<void>;
  /** Stops the functions and serves them again, with other options. */
  readonly restart: (changes?: Partial<ServeOptions>) => Promise<void>;
}

/** Returns the group of the webhook and the worker. */
export function createFunctionGroup(
  first: ServeOptions,
  options: {
    readonly ports: Pick<StackPorts, "webhook" | "worker">;
    readonly observer: ServiceObserver;
  },
): FunctionGroup {
  const { ports, observer } = options;
  let settings = first;
  let services: Service[] = [];

  async function start(signal?: AbortSignal) {
    services = (["webhook", "worker"] as const).map((name) =>
      createService(
        functionService(`billing-${name}`, { ...settings, port: ports[name] }),
        observer,
      )
    );
    await Promise.all(services.map((service) => service.start(signal)));
  }

  async function stop() {
    await Promise.all(services.map((service) => service.stop()));
  }

  async function restart(changes: Partial<ServeOptions> = {}) {
    await stop();
    settings = {
      denoPath: changes.denoPath ?? settings.denoPath,
      env: { ...settings.env, ...changes.env },
    };
    await start();
  }

  return { start, stop, restart };
}
