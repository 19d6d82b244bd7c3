import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { createCommand } from "../../../scripts/common/create_command.ts";
import { waitUntil } from "../../../scripts/common/wait_until.ts";
import { HANG_LIMIT_MS } from "../../support/hang_limit.ts";

const MODULE = new URL(
  "../../../scripts/console/open_browser.ts",
  import.meta.url,
).href;
const LINK = "http://127.0.0.1:1/?token=x";

/** Writes what it gets, and its process group, as a program that opens URLs. */
const OPENER = `#!/bin/sh
{
  echo "url $1"
  echo "group $(cut -d' ' -f5 /proc/$$/stat 2>/dev/null || ps -o pgid= -p $$)"
  echo "self $$"
  env
} > "$SEEN.new"
mv "$SEEN.new" "$SEEN"
`;

Deno.test("the browser is told the link, not the secret key, and outlives Ctrl-C", async () => {
  const folder = await Deno.makeTempDir();
  const seen = `${folder}/seen`;
  for (const name of ["xdg-open", "open"]) {
    await Deno.writeTextFile(`${folder}/${name}`, OPENER, { mode: 0o755 });
  }
  const { success, stderr } = await createCommand(Deno.execPath(), {
    args: [
      "eval",
      "--quiet",
      `import { openBrowser } from ${JSON.stringify(MODULE)};
      openBrowser(${JSON.stringify(LINK)});`,
    ],
    env: {
      PATH: `${folder}:${Deno.env.get("PATH")}`,
      SEEN: seen,
      SUPABASE_SECRET_KEY: "sb_secret_of_this_test",
    },
  }).output();
  assert(success, new TextDecoder().decode(stderr));
  const read = () => Deno.readTextFile(seen).catch(() => undefined);
  await waitUntil(async () => await read() !== undefined, {
    timeoutMs: HANG_LIMIT_MS,
  });
  const said = await read() ?? "";
  assertStringIncludes(said, `url ${LINK}\n`);
  assertEquals(said.includes("sb_secret"), false);
  // Ctrl-C in the terminal goes to the console's process group.
  const [group, self] = ["group", "self"].map((name) =>
    new RegExp(`^${name} +(\\d+)$`, "m").exec(said)?.[1]
  );
  assertEquals(group, self);
  await Deno.remove(folder, { recursive: true });
});
