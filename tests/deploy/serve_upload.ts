import { join } from "node:path";
import { toolEnvironment } from "../../scripts/local_stack/tools.ts";
import type { Environment } from "../../scripts/common/environment.ts";
import { isListening } from "../../scripts/common/loopback.ts";
import { createService } from "../../scripts/local_stack/service.ts";
import { freePort } from "../support/machine.ts";

/** What `supabase functions deploy` sends for a function. */
export interface Upload {
  readonly metadata: {
    readonly name: string;
    readonly entrypoint_path: string;
    readonly import_map_path: string;
    readonly verify_jwt: boolean;
  };
  /** Contents by their paths, which are relative to the repository. */
  readonly files: ReadonlyMap<string, Uint8Array<ArrayBuffer>>;
}

/** Reads the multipart form in which the Supabase CLI uploads a function. */
export async function readUpload(request: Request): Promise<Upload> {
  const form = await request.formData();
  const parts = form.getAll("file").filter((part) => part instanceof File);
  const files = await Promise.all(
    parts.map(async (part) => [part.name, await part.bytes()] as const),
  );
  return {
    metadata: JSON.parse(String(form.get("metadata"))),
    files: new Map(files),
  };
}

/**
 * Serves an upload from a folder that holds nothing else, by its own entry
 * point, `deno.json` and `deno.lock`, without downloading anything.
 *
 * @param options.denoPath the Deno that serves it
 * @param options.env the function's whole environment
 * @throws {Error} if it does not start, with what Deno says
 */
export async function serveUpload(
  { metadata: { name, entrypoint_path, import_map_path }, files }: Upload,
  { denoPath, env }: { denoPath: string; env: Environment },
) {
  await using opened = new AsyncDisposableStack();
  const folder = await Deno.makeTempDir({ prefix: "billing-webhook-upload-" });
  opened.defer(() => Deno.remove(folder, { recursive: true }));
  for (const [path, content] of files) {
    await Deno.mkdir(join(folder, path, ".."), { recursive: true });
    await Deno.writeFile(join(folder, path), content);
  }
  const port = freePort();
  const service = createService({
    name,
    command: denoPath,
    args: [
      ...["serve", "--quiet", "--no-prompt", "--allow-net", "--allow-env"],
      ...["--cached-only", "--no-config", "--import-map", import_map_path],
      ...["--lock", import_map_path.replace(/json$/, "lock"), "--frozen"],
      ...["--host", "127.0.0.1", "--port", `${port}`, entrypoint_path],
    ],
    env: { ...toolEnvironment(), ...env },
    cwd: folder,
    isReady: () => isListening(port),
    stopSignal: "SIGTERM",
  }, { onLog() {}, onUnexpectedEnd() {} });
  await service.start();
  opened.defer(service.stop);
  const owned = opened.move();
  return { port, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}
