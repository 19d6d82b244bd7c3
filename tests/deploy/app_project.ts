/**
 * A project of somebody else's, made with the CLI: a function with helpers of
 * its own in `_shared`, and migrations older and newer than the receiver's.
 *
 * @module
 */
import { dirname, join } from "node:path";
import type { HostedProject } from "./hosted_project.ts";
import {
  openTerminal,
  type ProjectTerminal,
  setLocalPort,
} from "./deployer.ts";

const SOURCES = {
  "functions/hello/deno.json": '{ "imports": {} }\n',
  "functions/hello/index.ts": [
    'import { cors } from "../_shared/cors.ts";',
    'import { greeting } from "../_shared/database.ts";',
    'const reply = () => new Response(greeting("app"), { headers: cors });',
    "export default { fetch: reply };",
    "",
  ].join("\n"),
  "functions/_shared/cors.ts":
    'export const cors = { "access-control-allow-origin": "*" };\n',
  "functions/_shared/database.ts":
    "export const greeting = (name: string) => `Hello ${name}!`;\n",
  "migrations/20240101000000_notes.sql":
    "create table public.notes (id int primary key, text text);\n",
  "migrations/20260101000000_profiles.sql": "",
  "migrations/20990101000000_tags.sql":
    "create table public.tags (id int primary key);\n",
};

/**
 * Makes the project, with a terminal that reaches a hosted one.
 *
 * @param options.localPort Where its config.toml has the local database.
 */
export async function makeAppProject(
  hosted: HostedProject,
  { localPort }: { localPort: number },
): Promise<ProjectTerminal> {
  await using opened = new AsyncDisposableStack();
  const path = await Deno.makeTempDir({ prefix: "billing-webhook-app-" });
  opened.defer(() => Deno.remove(path, { recursive: true }));
  const { type } = opened.use(await openTerminal(hosted, path));
  const { code, said } = await type(`git init --quiet
supabase init --yes
supabase functions new hello`);
  if (code !== 0) throw new Error(said);
  await setLocalPort(path, localPort);
  for (const [name, text] of Object.entries(SOURCES)) {
    const file = join(path, "supabase", name);
    await Deno.mkdir(dirname(file), { recursive: true });
    await Deno.writeTextFile(file, text);
  }
  const owned = opened.move();
  return { path, type, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}
