import { assertEquals, assertRejects } from "@std/assert";
import {
  databaseTls,
  isUnproven,
} from "../../../scripts/doctor/database_tls.ts";

const HOST = "aws-0-eu-central-1.pooler.supabase.com";
const REMOTE = `postgresql://postgres.ref:hunter2@${HOST}:5432/postgres`;
const LOCAL = "postgresql://postgres:postgres@127.0.0.1:54322/postgres";

Deno.test("databaseTls() verifies a database that is not on this machine", async () => {
  const ssl = { host: HOST, rejectUnauthorized: true };
  assertEquals(await databaseTls(REMOTE, {}), { url: REMOTE, ssl });
  for (
    const query of [
      "sslmode=verify-full",
      "sslmode=verify-ca&sslrootcert=system",
    ]
  ) {
    const tls = await databaseTls(`${REMOTE}?${query}`, {});
    assertEquals(tls, { url: REMOTE, ssl }, query);
  }
  const named = REMOTE.replace(HOST, "127.evil.example");
  assertEquals((await databaseTls(named, {})).ssl, {
    host: "127.evil.example",
    rejectUnauthorized: true,
  });
});

Deno.test("databaseTls() reads the root certificate that the address or PGSSLROOTCERT names", async () => {
  const file = await Deno.makeTempFile();
  try {
    await Deno.writeTextFile(file, "in PEM");
    const ssl = { host: HOST, rejectUnauthorized: true, ca: "in PEM" };
    for (
      const [url, env] of [
        [REMOTE, { PGSSLROOTCERT: file }],
        [`${REMOTE}?sslrootcert=${file}`, {}],
        [`${REMOTE}?sslrootcert=${file}`, { PGSSLROOTCERT: "/nowhere" }],
      ] as const
    ) assertEquals(await databaseTls(url, env), { url: REMOTE, ssl });
    await assertRejects(
      () => databaseTls(REMOTE, { PGSSLROOTCERT: "/nowhere" }),
      Error,
      "the root certificate /nowhere cannot be read",
    );
  } finally {
    await Deno.remove(file);
  }
});

Deno.test("databaseTls() skips verification if the URL says so, and TLS on this machine only", async () => {
  assertEquals((await databaseTls(`${REMOTE}?sslmode=require`, {})).ssl, {
    host: HOST,
    rejectUnauthorized: false,
  });
  assertEquals(await databaseTls(LOCAL, {}), { url: LOCAL, ssl: false });
  for (const mode of ["disable", "allow", "prefer", "nonsense"]) {
    await assertRejects(
      () => databaseTls(`${REMOTE}?sslmode=${mode}`, {}),
      Error,
      "unencrypted",
    );
  }
});

Deno.test("isUnproven() knows what TLS refuses", () => {
  for (
    const code of [
      "UNABLE_TO_VERIFY_LEAF_SIGNATURE",
      "SELF_SIGNED_CERT_IN_CHAIN",
      "ERR_TLS_CERT_ALTNAME_INVALID",
      "CERT_HAS_EXPIRED",
    ]
  ) assertEquals(isUnproven(Object.assign(new Error(), { code })), true, code);
  for (const code of ["ECONNREFUSED", "28P01", "CONNECT_TIMEOUT", undefined]) {
    assertEquals(isUnproven(Object.assign(new Error(), { code })), false);
  }
});
