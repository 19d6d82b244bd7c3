import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { decodeJwt } from "jose";
import { createCommand } from "../../../scripts/common/create_command.ts";
import { isValidToken } from "../../../scripts/local_stack/keys.ts";
import { publishRunningStack } from "../../../scripts/common/running_stack.ts";

const SCRIPT = new URL("../../../scripts/token.ts", import.meta.url).href;
const USER = "11111111-1111-4111-8111-111111111111";

async function token(folder: string, line: string) {
  const { code, stdout, stderr } = await createCommand(Deno.execPath(), {
    args: ["run", "--quiet", "-A", SCRIPT, ...line.split(" ")],
    env: { BILLING_STACK_DATA: folder },
  }).output();
  const decoder = new TextDecoder();
  return { code, out: decoder.decode(stdout), err: decoder.decode(stderr) };
}

Deno.test("token prints a token of a user of the local stack, valid for an hour", async () => {
  const folder = await Deno.makeTempDir();
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  await using _running = await publishRunningStack(folder, {
    apiUrl: `http://127.0.0.1:${listener.addr.port}`,
    dbUrl: "postgresql://127.0.0.1:5/postgres",
  });
  const line = `--user ${USER} --email one@example.com --account acc_1`;
  const { code, out, err } = await token(folder, line);
  assertEquals([code, err], [0, ""]);
  const { sub, role, email, app_metadata, exp = 0 } = decodeJwt(out.trimEnd());
  assertEquals([sub, role], [USER, "authenticated"]);
  assertEquals(email, "one@example.com");
  assertEquals(app_metadata, { account_id: "acc_1" });
  const nowSeconds = Date.now() / 1000;
  assert(await isValidToken(out.trimEnd(), nowSeconds));
  assert(Math.abs(exp - nowSeconds - 3_600) < 60, `${exp}`);

  for (const wrong of ["--email=x", "--user service_role", "--user="]) {
    const { code, out, err } = await token(folder, wrong);
    assertEquals([code, out], [2, ""]);
    assertStringIncludes(err, "--user");
  }
  const nowhere = await token("/nowhere", `--user ${USER}`);
  assertEquals([nowhere.code, nowhere.out], [1, ""]);
  assertStringIncludes(nowhere.err, "deno task start");
  await Deno.remove(folder, { recursive: true });
});
