import { assertEquals } from "@std/assert";
import { trustedCertificates } from "../../../scripts/common/trusted_certificates.ts";

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

Deno.test("trustedCertificates() takes the system's store where nothing is named", () => {
  assertEquals(trustedCertificates({}), {
    DENO_TLS_CA_STORE: "mozilla,system",
  });
});

Deno.test("trustedCertificates() adds the file that is named for Node, or else the system's", async () => {
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

Deno.test("trustedCertificates() leaves what the user has set for Deno", async () => {
  await withFiles((extra, system) => {
    const own = { DENO_CERT: system, DENO_TLS_CA_STORE: "mozilla" };
    assertEquals(
      trustedCertificates({ NODE_EXTRA_CA_CERTS: extra, ...own }),
      own,
    );
  });
});

Deno.test("trustedCertificates() names no file that is not there", () => {
  assertEquals(
    trustedCertificates({ NODE_EXTRA_CA_CERTS: "/nowhere/extra.pem" }),
    { DENO_TLS_CA_STORE: "mozilla,system" },
  );
  for (const missing of ["/nowhere/system.pem", ""]) {
    assertEquals(trustedCertificates({ SSL_CERT_FILE: missing }), {});
  }
});
