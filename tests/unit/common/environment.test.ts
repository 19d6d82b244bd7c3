import { assertEquals } from "@std/assert";
import {
  functionEnvironment,
  LOCAL_SIGNING_SECRETS,
  readEnvFile,
} from "../../../scripts/common/environment.ts";

Deno.test("functionEnvironment() defaults to the local secrets", () => {
  assertEquals(functionEnvironment({}), { ...LOCAL_SIGNING_SECRETS });
});

Deno.test("functionEnvironment() prefers the environment to the file", () => {
  const env = functionEnvironment(
    { PROVIDER_A_SIGNING_SECRET: "command" },
    { PROVIDER_A_SIGNING_SECRET: "file", PROVIDER_B_SIGNING_SECRET: "file" },
  );
  assertEquals(env["PROVIDER_A_SIGNING_SECRET"], "command");
  assertEquals(env["PROVIDER_B_SIGNING_SECRET"], "file");
});

Deno.test("functionEnvironment() keeps a secret that is set to nothing", () => {
  const env = functionEnvironment(
    { PROVIDER_A_SIGNING_SECRET: "" },
    { PROVIDER_B_SIGNING_SECRET: "" },
  );
  assertEquals(env["PROVIDER_A_SIGNING_SECRET"], "");
  assertEquals(env["PROVIDER_B_SIGNING_SECRET"], "");
});

Deno.test("functionEnvironment() leaves SUPABASE_ names to the platform", () => {
  const env = functionEnvironment(
    { SUPABASE_URL: "https://elsewhere.test" },
    { SUPABASE_DB_URL: "postgresql://elsewhere.test" },
  );
  assertEquals(env, { ...LOCAL_SIGNING_SECRETS });
});

Deno.test("readEnvFile() reads quotes, comments and line ends of both kinds", async () => {
  const file = await Deno.makeTempFile();
  try {
    await Deno.writeTextFile(
      file,
      `# note\nA=1 # one\r\nB="x # y"\nC=\nexport D='k=v'\n`,
    );
    assertEquals(await readEnvFile(file), {
      A: "1",
      B: "x # y",
      C: "",
      D: "k=v",
    });
  } finally {
    await Deno.remove(file);
  }
});

Deno.test("readEnvFile() returns nothing if there is no file", async () => {
  assertEquals(await readEnvFile("/no/such/folder/.env"), {});
});
