import { assertEquals } from "@std/assert";
import { localKeys, signToken } from "../../../scripts/common/keys.ts";
import { authorize } from "../../../scripts/local_stack/gateway_authorization.ts";

const keys = await localKeys();

Deno.test("authorize() turns a new key into its role's token", async () => {
  const { secret, publishable, serviceRole, anon } = keys;
  assertEquals(
    await authorize({ apikey: secret }, keys),
    `Bearer ${serviceRole}`,
  );
  assertEquals(
    await authorize({ apikey: publishable }, keys),
    `Bearer ${anon}`,
  );
});

Deno.test("authorize() replaces a new key that is sent as the token too", async () => {
  for (const scheme of ["Bearer", "bearer"]) {
    const authorization = `${scheme} ${keys.secret}`;
    assertEquals(
      await authorize({ apikey: keys.secret, authorization }, keys),
      `Bearer ${keys.serviceRole}`,
    );
  }
});

Deno.test("authorize() prefers the request's own token", async () => {
  const authorization = `Bearer ${await signToken({ role: "authenticated" })}`;
  assertEquals(
    await authorize({ apikey: keys.secret, authorization }, keys),
    authorization,
  );
});

Deno.test("authorize() accepts keys of the old kind unchanged", async () => {
  const own = await signToken({ role: "authenticated" });
  for (const apikey of [keys.anon, keys.serviceRole, own]) {
    assertEquals(await authorize({ apikey }, keys), `Bearer ${apikey}`);
  }
});

Deno.test("authorize() refuses a missing or wrong key, with or without a token", async () => {
  const authorization = `Bearer ${keys.serviceRole}`;
  for (
    const apikey of [
      undefined,
      "",
      "sb_secret_wrong",
      `${keys.secret} `,
      `${keys.serviceRole}x`,
    ]
  ) {
    assertEquals(await authorize({ apikey }, keys), undefined);
    assertEquals(await authorize({ apikey, authorization }, keys), undefined);
  }
});
