/** A Supabase project in a folder of its own, to add the receiver to. */
import { assertEquals } from "@std/assert";
import { dirname, join } from "node:path";
import { writeChanges } from "../../scripts/add/changes.ts";
import { makePlan } from "../../scripts/add/plan.ts";
import {
  ATTRIBUTES,
  readFolder,
  readProject,
  readReceiver,
  readText,
  type Receiver,
} from "../../scripts/add/project.ts";
import { createCommand } from "../../scripts/common/processes.ts";

/** What this repository adds. */
export const newest: Receiver = await readReceiver();

/** The same with the first migration only. */
export const receiver: Receiver = {
  ...newest,
  migrations: new Map([...newest.migrations].slice(0, 1)),
};

export const THEIRS = {
  "config.toml": 'project_id = "app" # ours\n',
  "functions/hello/index.ts": "export default {};\n",
  "functions/_shared/cors.ts": "export const cors = {};\n",
  "migrations/20250101000000_first.sql": "select 1;\n",
} as const;

export async function makeProject(
  files: Readonly<Record<string, string>> = THEIRS,
) {
  const path = await Deno.realPath(
    await Deno.makeTempDir({ prefix: "billing-webhook-project-" }),
  );
  const folder = join(path, "supabase");
  const project = {
    path,
    async write(name: string, text: string) {
      const file = join(folder, name);
      await Deno.mkdir(dirname(file), { recursive: true });
      await Deno.writeTextFile(file, text);
    },
    remove: (name: string) =>
      Deno.remove(join(folder, name), { recursive: true }),
    async tree(): Promise<Record<string, string>> {
      const found = new Map(await readFolder(folder, "."));
      const attributes = await readText(join(folder, ATTRIBUTES));
      if (attributes !== undefined) found.set(`./${ATTRIBUTES}`, attributes);
      return Object.fromEntries(
        Array.from(found, ([name, text]) => [name.slice("./".length), text]),
      );
    },
    async plan(version = receiver) {
      const now = Date.parse("2026-11-22T10:00:00Z");
      return makePlan(version, await readProject(path), now);
    },
    async add(version = receiver) {
      const plan = await project.plan(version);
      if (plan.blockers.length === 0) await writeChanges(folder, plan.changes);
      return plan;
    },
    commit: () => commitAll(path),
    [Symbol.asyncDispose]: () => Deno.remove(path, { recursive: true }),
  };
  for (const [name, text] of Object.entries(files)) {
    await project.write(name, text);
  }
  return project;
}

export async function commitAll(path: string): Promise<void> {
  const commit = "git -c user.name=a -c user.email=a@b commit -qm All";
  const args = ["-c", `git init -q && git add -A && ${commit}`];
  const { code } = await createCommand("sh", { args, cwd: path }).output();
  assertEquals(code, 0);
}
