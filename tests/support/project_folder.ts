/**
 * A Supabase project in a folder, and versions of the receiver to add to it.
 *
 * @module
 */
import { dirname, join } from "node:path";
import { makeChanges } from "../../scripts/add/make_changes.ts";
import {
  type Decisions,
  type PlannedFile,
} from "../../scripts/add/plan_files.ts";
import { makePlan, type Plan } from "../../scripts/add/plan.ts";
import { readProject } from "../../scripts/add/project.ts";
import { readReceiver } from "../../scripts/add/receiver.ts";
import type { Receiver } from "../../scripts/add/receiver.ts";

/** What this repository adds. */
export const receiver: Receiver = await readReceiver();

/** The texts of a project of somebody else's. */
export const THEIRS = {
  "supabase/config.toml": 'project_id = "app" # ours\n',
  "supabase/functions/hello/index.ts": "export default {};\n",
  "supabase/functions/_shared/cors.ts": "export const cors = {};\n",
  "supabase/functions/_shared/database.ts": "export const database = 1;\n",
  "supabase/migrations/20250101000000_first.sql": "select 1;\n",
  "README.md": "An app\r\n",
} as const;

/** Texts by path; links and folders are named as such. */
export type Tree = Readonly<Record<string, string>>;

/** A project in a folder of its own. */
export interface ProjectFolder extends AsyncDisposable {
  readonly path: string;
  write(path: string, text: string): Promise<void>;
  read(path: string): Promise<string>;
  /** All that is in it, in order. */
  tree(): Promise<Tree>;
  /** Reads it and plans. */
  plan(version?: Receiver, decisions?: Decisions): Promise<Plan>;
  /** Plans and makes the changes, or the first few of them. */
  add(
    version?: Receiver,
    options?: { decisions?: Decisions; stopAfter?: number },
  ): Promise<Plan>;
}

/** Makes a project with these files. */
export async function makeProject(
  files: Tree = THEIRS,
): Promise<ProjectFolder> {
  const path = await Deno.makeTempDir({ prefix: "billing-webhook-project-" });
  const project: ProjectFolder = {
    path,
    async write(name, text) {
      await Deno.mkdir(dirname(join(path, name)), { recursive: true });
      await Deno.writeTextFile(join(path, name), text);
    },
    read: (name) => Deno.readTextFile(join(path, name)),
    tree: async () =>
      Object.fromEntries(
        (await Array.fromAsync(entriesBelow(path))).sort(([a], [b]) =>
          a < b ? -1 : 1
        ),
      ),
    async plan(version = receiver, decisions = {}) {
      return makePlan(version, await readProject(path, version), {
        decisions,
        clock: () => Date.parse("2026-11-22T10:00:00Z"),
      });
    },
    async add(version = receiver, { decisions = {}, stopAfter } = {}) {
      const plan = await project.plan(version, decisions);
      if (plan.blockers.length > 0) throw new Error(plan.blockers.join("\n"));
      await makeChanges(
        join(path, "supabase"),
        plan.changes.slice(0, stopAfter),
      );
      return plan;
    },
    [Symbol.asyncDispose]: () => Deno.remove(path, { recursive: true }),
  };
  for (const [name, text] of Object.entries(files)) {
    await project.write(name, text);
  }
  return project;
}

/**
 * A version from before this one: without the newest migrations, and with other
 * files.
 *
 * @param options.texts In place of this version's; null leaves a file out.
 */
export function olderVersion(
  { version, migrationsLess, texts = {} }: {
    version: string;
    migrationsLess: number;
    texts?: Readonly<Record<string, string | null>>;
  },
): Receiver {
  const files = new Map(receiver.files);
  for (const [path, text] of Object.entries(texts)) {
    if (text === null) files.delete(path);
    else files.set(path, text);
  }
  const { length } = receiver.migrations;
  return {
    ...receiver,
    version,
    files,
    migrations: receiver.migrations.slice(0, length - migrationsLess),
  };
}

/** The paths of the files in a state. */
export function inState(
  { files }: Plan,
  state: PlannedFile["state"],
): string[] {
  return files.filter((file) => file.state === state).map(({ path }) => path);
}

async function* entriesBelow(
  root: string,
  folder = "",
): AsyncGenerator<[string, string]> {
  for await (const entry of Deno.readDir(join(root, folder))) {
    const path = join(folder, entry.name);
    if (entry.isSymlink) {
      yield [path, `link to ${await Deno.readLink(join(root, path))}`];
    } else if (entry.isDirectory) yield* entriesBelow(root, path);
    else yield [path, await Deno.readTextFile(join(root, path))];
  }
}
