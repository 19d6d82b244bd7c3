import { assertEquals } from "@std/assert";
import { spawnGroup } from "../../../scripts/local_stack/tools.ts";
import { HANG_LIMIT_MS } from "../../support/hang_limit.ts";

const MODULE = import.meta.resolve("../../../scripts/common/abort_on_end.ts");

Deno.test("watchLauncher() calls back at once if npx has already ended", async () => {
  const script = `
    import { watchLauncher } from ${JSON.stringify(MODULE)};
    const parent = Deno.ppid;
    console.log("go");
    while (Deno.ppid === parent) await new Promise((r) => setTimeout(r, 10));
    setTimeout(() => { console.log("nothing"); Deno.exit(); }, ${HANG_LIMIT_MS});
    await watchLauncher(Deno.env.toObject(), () => {
      console.log("gone");
      Deno.exit();
    });`;
  const { child, ended } = spawnGroup({
    command: "sh",
    // The shell ends once its child has seen it.
    args: ["-c", '"$0" eval "$1" | { read -r _; kill $$; cat >&2; }']
      .concat(Deno.execPath(), script),
    options: {
      env: { npm_lifecycle_event: "npx", npm_lifecycle_script: "'deno'" },
      stdout: "null",
      stderr: "piped",
    },
  });
  const heard = await new Response(child.stderr).text();
  await ended;
  assertEquals(heard.trim(), "gone");
});
