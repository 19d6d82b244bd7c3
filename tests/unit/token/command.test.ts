import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { decodeJwt } from "jose";
import { createCommand } from "../../../scripts/common/create_command.ts";
import { isValidToken } from "../../../scripts/common/keys.ts";
import { publishRunningStack } from "../../../scripts/common/running_stack.ts";

const SCRIPT = new URL("../../../scripts/token.ts", import.meta.url).href;
const USER = "11111111-1111-4111-8111-111111111111";

async function token(folder: string, ...args: string[]) {
  const output = await createCommand(Deno.execPath(), {
    args: ["run", "--quiet", "-A", SCRIPT, ...args],
    env: { BILLING_STACK_DATA: folder },
  }).output();
  const decoder = new TextDecoder();
  return {
    code: output.code,
    out: decoder.decode(output.stdout),
    err: decoder.decode(output.stderr),
  };
}

/** Runs `use` with the folder of a stack that runs. */
async function withStack(
  use: (folder: string) => Promise<void>,
): Promise<void> {
  const folder = await Deno.makeTempDir();
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  try {
    await using _running = await publishRunningStack(folder, {
      apiUrl: `http://127.0.0.1:${listener.addr.port}`,
      dbUrl: "postgresql://127.0.0.1:5/postgres",
    });
    await use(folder);
  } finally {
    listener.close();
    await Deno.remove(folder, { recursive: true });
  }
}

Deno.test("token prints a token of the user, which is valid for an hour", async () => {
  await withStack(async (folder) => {
    const { code, out, err } = await token(
      folder,
      "--user",
      USER,
      "--email",
      "one@example.com",
      "--account",
      "acc_1",
    );
    assertEquals([code, err], [0, ""]);
    const jwt = out.trimEnd();
    const { sub, role, email, app_metadata, exp = 0 } = decodeJwt(jwt);
    assertEquals({ sub, role, email, app_metadata }, {
      sub: USER,
      role: "authenticated",
      email: "one@example.com",
      app_metadata: { account_id: "acc_1" },
    });
    const nowSeconds = Date.now() / 1000;
    assert(await isValidToken(jwt, nowSeconds));
    assert(Math.abs(exp - nowSeconds - 3_600) < 60, `${exp}`);
  });
});

Deno.test("token refuses a user who is missing or no UUID, and anything but the local stack", async () => {
  await withStack(async (folder) => {
    for (const args of [[], ["--user", "service_role"], ["--user="]]) {
      const { code, out, err } = await token(folder, ...args);
      assertEquals([code, out], [2, ""]);
      assertStringIncludes(err, "--user");
    }
  });
  const { code, out, err } = await token("/nowhere", "--user", USER);
  assertEquals([code, out], [1, ""]);
  assertStringIncludes(err, "deno task start");
});
