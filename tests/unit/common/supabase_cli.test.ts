import { assertEquals } from "@std/assert";
import {
  runSupabaseCli,
  SUPABASE_CLI_VERSION,
  supabaseCli,
} from "../../../scripts/common/supabase_cli.ts";

Deno.test("runSupabaseCli() runs the version that import_map.json pins", async () => {
  const home = await Deno.makeTempDir();
  const said = await runSupabaseCli(["--version"], { purpose: "tell", home });
  assertEquals(said.trim(), SUPABASE_CLI_VERSION);
  await Deno.remove(home, { recursive: true });
});

Deno.test("supabaseCli() runs the same version from npm with Deno on other platforms", () => {
  for (
    const platform of [
      { os: "darwin", arch: "aarch64" },
      { os: "linux", arch: "aarch64" },
    ] as const
  ) {
    const { command, args } = supabaseCli(platform);
    assertEquals(command, Deno.execPath());
    assertEquals(args.at(-1), `npm:supabase@${SUPABASE_CLI_VERSION}`);
  }
});
