import { createCommand } from "../../scripts/common/create_command.ts";
import { lockPath, unpack, type Upload, uploadOptions } from "./upload.ts";

/** The part of `deno info --json` that is looked at. */
interface ModuleGraph {
  readonly modules: readonly {
    readonly specifier: string;
    readonly error?: string;
    readonly dependencies?: readonly {
      readonly specifier: string;
      readonly code?: { readonly error?: string };
      readonly type?: { readonly error?: string };
    }[];
  }[];
  readonly npmPackages: Readonly<
    Record<string, { readonly name: string; readonly version: string }>
  >;
}

/**
 * Returns what is wrong with an upload, by the module graph that Deno makes of
 * it in an empty folder: modules that are imported and not uploaded, files that
 * are uploaded and not imported, and packages whose version is not the pinned one.
 *
 * @param options.denoPath The Deno of the platform.
 * @returns an empty list if the upload is complete and holds nothing else
 */
export async function uploadFaults(
  upload: Upload,
  { denoPath }: { denoPath: string },
): Promise<string[]> {
  const made = await Deno.makeTempDir({ prefix: "billing-webhook-bundle-" });
  const folder = await Deno.realPath(made);
  try {
    await unpack(upload, folder);
    const { modules, npmPackages } = await moduleGraph(upload, {
      denoPath,
      folder,
    });
    const root = `file://${folder}/`;
    const imported = new Set(
      modules.map(({ specifier }) => specifier.replace(root, "")),
    );
    const { import_map_path: configPath } = upload.metadata;
    imported.add(configPath);
    imported.add(lockPath(configPath));
    return [
      ...modules.flatMap((module) => faultsOf(module)),
      ...[...upload.files.keys()].filter((path) => !imported.has(path))
        .map((path) => `Nothing imports ${path}`),
      ...Object.values(npmPackages).flatMap((one) => versionFault(one, upload)),
    ].map((fault) => fault.replaceAll(root, ""));
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

function faultsOf(module: ModuleGraph["modules"][number]): string[] {
  const { specifier, error, dependencies = [] } = module;
  return [
    ...(error === undefined ? [] : [`Cannot load ${specifier}`]),
    ...dependencies.filter(({ code, type }) => code?.error ?? type?.error)
      .map((one) => `${specifier} cannot import ${one.specifier}`),
  ];
}

function versionFault(
  { name, version }: { name: string; version: string },
  { files, metadata }: Upload,
): string[] {
  const text = new TextDecoder().decode(files.get(metadata.import_map_path));
  const pinned = JSON.parse(text).imports[name];
  return pinned === undefined || pinned === `npm:${name}@${version}`
    ? []
    : [`${name} is ${version}, not ${pinned}`];
}

async function moduleGraph(
  upload: Upload,
  { denoPath, folder }: { denoPath: string; folder: string },
): Promise<ModuleGraph> {
  const { success, stdout, stderr } = await createCommand(denoPath, {
    args: [
      "info",
      "--json",
      ...uploadOptions(upload),
      upload.metadata.entrypoint_path,
    ],
    cwd: folder,
  }).output();
  const decoder = new TextDecoder();
  if (success) return JSON.parse(decoder.decode(stdout));
  throw new Error(`Cannot read the upload: ${decoder.decode(stderr)}`);
}
