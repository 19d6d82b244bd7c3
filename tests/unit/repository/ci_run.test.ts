/**
 * `.ci/run`, with a stand-in for npx that prints what it was given.
 *
 * @module
 */
import { assertEquals, assertMatch } from "@std/assert";
import { fileURLToPath } from "node:url";
import { createCommand } from "../../../scripts/common/create_command.ts";

const SCRIPT = fileURLToPath(new URL("../../../.ci/run", import.meta.url));

/** Writes settings and the home's files, leaves a file there, and goes on. */
const NPX = `#!/bin/sh
env | grep -iE '^(DENO_|XDG_|npm_config_)'
ls -A "$HOME"
cat "$HOME/.npmrc"
mkdir -p "$HOME/.cache/deno"
`;

interface Gate {
  readonly code: number;
  readonly lines: string[];
  /** What is in the folder for temporary files afterwards. */
  readonly left: string[];
  readonly temporary: string;
}

/** Runs the script with a home that is in use, and an npx that ends so. */
async function runGate(ending: string): Promise<Gate> {
  const folder = await Deno.makeTempDir();
  const temporary = `${folder}/tmp`;
  try {
    for (const name of ["bin", "home/.cache/deno", "tmp"]) {
      await Deno.mkdir(`${folder}/${name}`, { recursive: true });
    }
    await Deno.writeTextFile(`${folder}/home/.npmrc`, "fund=false\n");
    await Deno.writeTextFile(`${folder}/bin/npx`, NPX + ending, {
      mode: 0o755,
    });
    const { code, stdout } = await createCommand("bash", {
      args: [SCRIPT],
      clearEnv: true,
      env: {
        PATH: `${folder}/bin:${Deno.env.get("PATH")}`,
        HOME: `${folder}/home`,
        TMPDIR: temporary,
        DENO_DIR: "/warm",
        DENO_TLS_CA_STORE: "mozilla",
        XDG_CACHE_HOME: "/warm",
        npm_config_cache: "/warm",
        NPM_CONFIG_CACHE: "/warm",
      },
    }).output();
    return {
      code,
      lines: new TextDecoder().decode(stdout).trim().split("\n"),
      left: [...Deno.readDirSync(temporary)].map(({ name }) => name),
      temporary,
    };
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

Deno.test(".ci/run begins with an empty home, keeps npm's settings, and leaves nothing", async () => {
  const { code, lines, left, temporary } = await runGate(
    "echo '7 passed, 0 failed'; echo 'npm notice'",
  );
  assertEquals(lines[0]?.startsWith(`npm_config_cache=${temporary}/`), true);
  assertEquals(lines.slice(1), [
    ".npmrc",
    "fund=false",
    "7 passed, 0 failed",
    "npm notice",
    "7 passed, 0 failed",
  ]);
  assertEquals([code, left], [0, []]);
});

Deno.test(".ci/run fails as its command does", async () => {
  const { code, lines, left } = await runGate(
    "echo '7 passed, 2 failed'; exit 9",
  );
  assertEquals([code, lines.at(-1), left], [9, "7 passed, 2 failed", []]);
});

Deno.test(".ci/run fails if no tests were counted, whatever its exit code", async () => {
  for (const ending of ["exit 0", "exit 1", "echo passed"]) {
    const { code, lines, left } = await runGate(ending);
    assertEquals([code, lines.at(-1), left], [1, "0 passed, 1 failed", []]);
  }
});

Deno.test(".ci/run ends its command and leaves nothing if it is ended", async () => {
  const { code, lines, left } = await runGate(
    // Ends the script, then goes on until it is ended itself.
    "trap 'sleep 0.3; echo ended; mkdir \"$HOME/late\"; exit 1' TERM\n" +
      "kill -TERM $PPID\nfor i in $(seq 100); do sleep 0.1; done",
  );
  assertMatch(lines.join("\n"), /^ended$/m);
  assertEquals([code, left], [143, []]);
});
