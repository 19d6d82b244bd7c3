import { assertEquals } from "@std/assert";
import { HANG_LIMIT_MS } from "../../support/hang_limit.ts";
import { spawnGroup } from "../../../scripts/common/spawn_group.ts";

const MODULE = import.meta.resolve(
  "../../../scripts/common/abort_on_end.ts",
);

/** Returns what an orphaned process prints until it ends, at the latest then. */
async function heardByOrphan(
  env: Record<string, string>,
  { endsAfterMs }: { endsAfterMs: number },
): Promise<string> {
  const script = `
    import { watchLauncher } from ${JSON.stringify(MODULE)};
    const parent = Deno.ppid;
    console.log("go");
    while (Deno.ppid === parent) await new Promise((r) => setTimeout(r, 10));
    setTimeout(() => { console.log("nothing"); Deno.exit(); }, ${endsAfterMs});
    await watchLauncher(Deno.env.toObject(), () => {
      console.log("gone");
      Deno.exit();
    });`;
  const { child, ended } = spawnGroup({
    command: "sh",
    // The shell ends once its child has seen it.
    args: ["-c", '"$0" eval "$1" | { read -r _; kill $$; cat >&2; }']
      .concat(Deno.execPath(), script),
    options: { env, stdout: "null", stderr: "piped" },
  });
  const heard = await new Response(child.stderr).text();
  await ended;
  return heard.trim();
}

Deno.test("watchLauncher() calls back at once if npx has already ended", async () => {
  const npx = { npm_lifecycle_event: "npx", npm_lifecycle_script: "'deno'" };
  assertEquals(
    await heardByOrphan(npx, { endsAfterMs: HANG_LIMIT_MS }),
    "gone",
  );
});

Deno.test("watchLauncher() does not call back if nothing launched the process", async () => {
  const none = { npm_lifecycle_event: "", npm_lifecycle_script: "" };
  assertEquals(await heardByOrphan(none, { endsAfterMs: 1_500 }), "nothing");
});
