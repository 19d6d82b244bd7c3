import { assertEquals } from "@std/assert";
import {
  createCommand,
  trustedCertificates,
} from "../../../scripts/common/create_command.ts";

const ROOT = new URL("../../../", import.meta.url);
/** Deployed code may not start processes, so it is not searched. */
const FOLDERS = ["bench", "scripts", "tests"];
const ONLY_PLACE = "scripts/common/create_command.ts";
/** The ways to start a process. */
const STARTS = /\bDeno\s*\.\s*Command\(|["'](?:node:)?child_process["']/;

async function settingsOf(options: Deno.CommandOptions): Promise<unknown> {
  const names = ["DENO_CERT", "DENO_TLS_CA_STORE", "HOME", "OWN"];
  const { stdout } = await createCommand(Deno.execPath(), {
    ...options,
    args: [
      "eval",
      `console.log(JSON.stringify(${
        JSON.stringify(names)
      }.map((name) => Deno.env.get(name) ?? null)))`,
    ],
  }).output();
  return JSON.parse(new TextDecoder().decode(stdout));
}

/** Runs `use` with changes to the environment of this process. */
async function withEnvironment(
  env: Record<string, string | undefined>,
  use: () => Promise<void>,
): Promise<void> {
  const before = Object.keys(env).map((name) => [name, Deno.env.get(name)]);
  function set(entries: (string | undefined)[][]) {
    for (const [name, value] of entries) {
      if (value === undefined) Deno.env.delete(name!);
      else Deno.env.set(name!, value);
    }
  }
  set(Object.entries(env));
  try {
    await use();
  } finally {
    set(before);
  }
}

Deno.test("createCommand() gives a process the certificates of this machine", async () => {
  const bundle = await Deno.makeTempFile({ suffix: ".pem" });
  const store = "mozilla,system";
  try {
    await withEnvironment({
      NODE_EXTRA_CA_CERTS: bundle,
      SSL_CERT_FILE: undefined,
      DENO_CERT: undefined,
      DENO_TLS_CA_STORE: undefined,
      HOME: "/tmp",
    }, async () => {
      assertEquals(await settingsOf({}), [bundle, store, "/tmp", null]);
      assertEquals(
        await settingsOf({ clearEnv: true, env: { OWN: "1" } }),
        [bundle, store, null, "1"],
      );
      assertEquals(
        await settingsOf({ env: { DENO_TLS_CA_STORE: "mozilla" } }),
        [bundle, "mozilla", "/tmp", null],
      );
    });
  } finally {
    await Deno.remove(bundle);
  }
});

Deno.test("only createCommand() starts a process", async () => {
  const starting: string[] = [];
  for (const folder of FOLDERS) {
    for await (const path of modulesIn(folder)) {
      const text = await Deno.readTextFile(new URL(path, ROOT));
      if (STARTS.test(text)) starting.push(path);
    }
  }
  // The npm package's program is on Node.js.
  assertEquals(starting.sort(), [ONLY_PLACE, "scripts/npx/main.mjs"]);
});

async function* modulesIn(folder: string): AsyncGenerator<string> {
  for await (
    const { name, isDirectory } of Deno.readDir(new URL(`${folder}/`, ROOT))
  ) {
    const path = `${folder}/${name}`;
    if (isDirectory) yield* modulesIn(path);
    else if (/\.[cm]?[jt]sx?$/.test(name)) yield path;
  }
}

async function withFiles(
  use: (extra: string, system: string) => void,
): Promise<void> {
  const folder = await Deno.makeTempDir();
  try {
    const names = ["extra.pem", "system.pem"].map((n) => `${folder}/${n}`);
    for (const name of names) await Deno.writeTextFile(name, "");
    use(names[0]!, names[1]!);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

Deno.test("trustedCertificates() uses the system's store if no file is named", () => {
  assertEquals(trustedCertificates({}), {
    DENO_TLS_CA_STORE: "mozilla,system",
  });
});

Deno.test("trustedCertificates() adds the file that is named for Node, or the system's", async () => {
  const store = "mozilla,system";
  await withFiles((extra, system) => {
    for (
      const [env, added] of [
        [{ NODE_EXTRA_CA_CERTS: extra }, extra],
        [{ NODE_EXTRA_CA_CERTS: extra, SSL_CERT_FILE: system }, extra],
        [{ NODE_EXTRA_CA_CERTS: "", SSL_CERT_FILE: system }, system],
        [{ SSL_CERT_FILE: system }, system],
      ] as const
    ) {
      assertEquals(
        trustedCertificates(env),
        { DENO_CERT: added, DENO_TLS_CA_STORE: store },
      );
    }
  });
});

Deno.test("trustedCertificates() keeps the user's settings for Deno", async () => {
  await withFiles((extra, system) => {
    const own = { DENO_CERT: system, DENO_TLS_CA_STORE: "mozilla" };
    assertEquals(
      trustedCertificates({ NODE_EXTRA_CA_CERTS: extra, ...own }),
      own,
    );
  });
});

Deno.test("trustedCertificates() names no file that does not exist", () => {
  assertEquals(
    trustedCertificates({ NODE_EXTRA_CA_CERTS: "/nowhere/extra.pem" }),
    { DENO_TLS_CA_STORE: "mozilla,system" },
  );
  for (const missing of ["/nowhere/system.pem", ""]) {
    assertEquals(trustedCertificates({ SSL_CERT_FILE: missing }), {});
  }
});
