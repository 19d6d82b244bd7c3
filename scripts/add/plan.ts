/**
 * What `add` does to a project: a function of what was read, so that it can be
 * shown before anything is written.
 *
 * @module
 */
import { appended } from "./append.ts";
import { type ConfigPlan, planConfig } from "./config_sections.ts";
import { blockersOf } from "./blockers.ts";
import { ENV_EXAMPLE, withEnvBlock } from "./env_example.ts";
import { fingerprint, withLf } from "./fingerprint.ts";
import { MANIFEST, type Manifest, manifestText } from "./manifest.ts";
import { type MigrationPlan, planMigrations } from "./migrations.ts";
import { type Decisions, planFiles, type PlannedFile } from "./plan_files.ts";
import { GITIGNORE, type Project } from "./project.ts";
import type { Receiver } from "./receiver.ts";
import { takenNames } from "./taken_names.ts";

/** A change of the project; without a text, the file is removed. */
export interface Change {
  readonly path: string;
  readonly text: string | undefined;
}

/** What to do. */
export interface Plan {
  readonly version: string;
  readonly files: readonly PlannedFile[];
  readonly migrations: MigrationPlan;
  /** Names of the receiver that the project's migrations use, with the file. */
  readonly takenNames: ReadonlyMap<string, string>;
  readonly config: ConfigPlan;
  /** Whether the project gets a line that keeps the secrets out of git. */
  readonly hidesEnv: boolean;
  /** Why nothing can be done, each with what to do first. */
  readonly blockers: readonly string[];
  /** In the order in which they are made, the manifest last. */
  readonly changes: readonly Change[];
}

/** Plans how a project gets the receiver. */
export function makePlan(
  receiver: Receiver,
  project: Project,
  { decisions = {}, clock }: { decisions?: Decisions; clock: () => number },
): Plan {
  const files = planFiles(receiver, { project, decisions });
  const migrations = planMigrations(receiver.migrations, {
    files: project.migrationFiles,
    recorded: project.manifest.migrations,
  }, clock);
  const config = planConfig(project.config, receiver.sections);
  const manifest = manifestAfter(receiver, { project, files, migrations });
  const hidesEnv = !project.ignoresEnv &&
    !/^functions\/\.env\r?$/m.test(project.files.get(GITIGNORE) ?? "");
  return {
    version: receiver.version,
    files,
    migrations,
    takenNames: takenBefore(migrations, project),
    config,
    hidesEnv,
    blockers: blockersOf(receiver, { project, files, migrations }),
    changes: [
      ...files.flatMap((file) => changeOf(file, project)),
      ...Array.from(migrations.added, ([name, { text }]) => ({
        path: `migrations/${name}`,
        text,
      })),
      ...config.text === undefined
        ? []
        : [{ path: project.config.name, text: config.text }],
      ...hidesEnv ? [ignoreEnv(project)] : [],
      ...manifestText(manifest) === project.files.get(MANIFEST)
        ? []
        : [{ path: MANIFEST, text: manifestText(manifest) }],
    ],
  };
}

/** Only the first migration minds, and the project may replace functions later. */
function takenBefore(
  { added }: MigrationPlan,
  { migrationTexts }: Project,
): ReadonlyMap<string, string> {
  const [first] = added.values();
  return first?.id === "0001"
    ? takenNames(first.text, migrationTexts)
    : new Map();
}

/** Whether the project has all of this version that it can have. */
export function isUpToDate(
  { blockers, changes, config, files }: Plan,
): boolean {
  return blockers.length === 0 && changes.length === 0 &&
    config.todo.length === 0 &&
    !files.some(({ state }) => state === "conflict");
}

function changeOf(
  { path, state, ours }: PlannedFile,
  project: Project,
): Change[] {
  if (state === "removed") return [{ path, text: undefined }];
  if (ours === undefined || (state !== "new" && state !== "updated")) return [];
  const text = path === ENV_EXAMPLE
    ? withEnvBlock(project.files.get(path), withLf(ours))
    : ours;
  return [{ path, text }];
}

function ignoreEnv(project: Project): Change {
  const text = project.files.get(GITIGNORE) ?? "";
  return {
    path: GITIGNORE,
    text: appended(text, "# Secrets of the functions\nfunctions/.env\n"),
  };
}

/** A conflict keeps its old fingerprint, so that the next run finds it again. */
function manifestAfter(
  receiver: Receiver,
  { project, files, migrations }: {
    project: Project;
    files: readonly PlannedFile[];
    migrations: MigrationPlan;
  },
): Manifest {
  const fingerprints = files.flatMap(({ path, state, ours }) => {
    if (ours === undefined || state === "foreign") return [];
    const old = project.manifest.files[path];
    return [[
      path,
      state === "conflict" && old !== undefined ? old : fingerprint(ours),
    ]];
  });
  return {
    version: receiver.version,
    files: Object.fromEntries(fingerprints),
    migrations: migrations.recorded,
  };
}
