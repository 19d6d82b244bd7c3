/** What `supabase functions deploy` says of a function. */
export interface UploadMetadata {
  readonly name: string;
  readonly entrypoint_path: string;
  readonly import_map_path: string;
  readonly verify_jwt: boolean;
}

/** What `supabase functions deploy` sends for a function. */
export interface Upload {
  readonly metadata: UploadMetadata;
  /** Contents by their paths, which are relative to the repository. */
  readonly files: ReadonlyMap<string, Uint8Array<ArrayBuffer>>;
}

/**
 * Reads the multipart form in which the Supabase CLI uploads a function.
 *
 * @throws {Error} Where it has no metadata.
 */
export async function readUpload(request: Request): Promise<Upload> {
  const form = await request.formData();
  const metadata = form.get("metadata");
  if (typeof metadata !== "string") {
    throw new Error("Cannot read the upload: it has no metadata.");
  }
  const parts = form.getAll("file").filter((part) => part instanceof File);
  const files = await Promise.all(
    parts.map(async (part) => [part.name, await part.bytes()] as const),
  );
  return { metadata: JSON.parse(metadata), files: new Map(files) };
}

/**
 * Returns the options with which Deno uses nothing but an upload: its
 * `deno.json`, and the lock file beside it.
 */
export function uploadOptions({ metadata }: Upload): string[] {
  return [
    "--no-config",
    "--import-map",
    metadata.import_map_path,
    "--lock",
    lockPath(metadata.import_map_path),
  ];
}

/** Returns the path of the lock file that belongs to a `deno.json`. */
export function lockPath(configPath: string): string {
  return configPath.replace(/deno\.json$/, "deno.lock");
}

/** How large an upload is, in bytes. */
export function uploadSize({ files }: Upload): number {
  return [...files.values()].reduce((sum, { length }) => sum + length, 0);
}

/**
 * Returns the upload with one file changed, or without it if `change` returns
 * nothing.
 */
export function withFile(
  upload: Upload,
  { path, change }: {
    path: string;
    change: (text: string) => string | undefined;
  },
): Upload {
  const files = new Map(upload.files);
  const changed = change(new TextDecoder().decode(files.get(path)));
  if (changed === undefined) files.delete(path);
  else files.set(path, new TextEncoder().encode(changed));
  return { ...upload, files };
}

/** Writes an upload's files into a folder, at their paths. */
export async function unpack(upload: Upload, folder: string): Promise<void> {
  for (const [path, content] of upload.files) {
    const target = new URL(path, `file://${folder}/`);
    await Deno.mkdir(new URL(".", target), { recursive: true });
    await Deno.writeFile(target, content);
  }
}
