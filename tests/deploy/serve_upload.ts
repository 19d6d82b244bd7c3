import { isListening } from "../../scripts/common/is_listening.ts";
import type { Environment } from "../../scripts/common/environment.ts";
import { createService } from "../../scripts/local_stack/service.ts";
import { toolEnvironment } from "../../scripts/common/create_command.ts";
import { freePort } from "../support/free_port.ts";
import { unpack, type Upload, uploadOptions } from "./upload.ts";

/** An uploaded function that is served. */
export interface ServedUpload extends AsyncDisposable {
  readonly port: number;
}

/**
 * Serves an upload from a folder that holds nothing else, by its own entry
 * point and `deno.json`.
 *
 * @param options.denoPath The Deno that serves it.
 * @param options.env The function's whole environment.
 * @throws {Error} If it does not start, with what Deno says.
 */
export async function serveUpload(
  upload: Upload,
  { denoPath, env }: { denoPath: string; env: Environment },
): Promise<ServedUpload> {
  const { name, entrypoint_path } = upload.metadata;
  await using opened = new AsyncDisposableStack();
  const folder = await Deno.makeTempDir({ prefix: "billing-webhook-bundle-" });
  opened.defer(() => Deno.remove(folder, { recursive: true }));
  await unpack(upload, folder);

  const port = freePort();
  const service = createService({
    name,
    command: denoPath,
    args: [
      "serve",
      "--quiet",
      "--no-prompt",
      "--allow-net",
      "--allow-env",
      "--cached-only",
      ...uploadOptions(upload),
      "--frozen",
      "--host",
      "127.0.0.1",
      "--port",
      `${port}`,
      entrypoint_path,
    ],
    env: { ...toolEnvironment(), ...env },
    cwd: folder,
    isReady: () => isListening(port),
    stopSignal: "SIGTERM",
  }, {
    onLog: () => {},
    onUnexpectedEnd: () => {},
  });
  await service.start();
  opened.defer(service.stop);

  const owned = opened.move();
  return {
    port,
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}
