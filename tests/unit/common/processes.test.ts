import { assertEquals } from "@std/assert";
import { trustedCertificates } from "../../../scripts/common/processes.ts";
import type { Environment } from "../../../scripts/common/environment.ts";

const STORE = { DENO_TLS_CA_STORE: "mozilla,system" };
const NOWHERE = "/nowhere/a.pem";

Deno.test("trustedCertificates() adds the file that is named for Node, or the system's", async () => {
  const [extra, system] = [
    await Deno.makeTempFile(),
    await Deno.makeTempFile(),
  ];
  const node = { NODE_EXTRA_CA_CERTS: extra };
  const both = { ...node, SSL_CERT_FILE: system };
  const own = { DENO_CERT: system, DENO_TLS_CA_STORE: "mozilla" };
  const cases: [Environment, Environment][] = [
    [{}, STORE],
    [both, { ...STORE, DENO_CERT: extra }],
    [{ ...both, NODE_EXTRA_CA_CERTS: "" }, { ...STORE, DENO_CERT: system }],
    // The user's own settings for Deno win.
    [{ ...node, ...own }, own],
    // Deno 2.1.4 crashes if the system's file does not exist.
    [{ NODE_EXTRA_CA_CERTS: NOWHERE }, STORE],
    [{ SSL_CERT_FILE: NOWHERE }, {}],
  ];

  for (const [env, trusted] of cases) {
    assertEquals(trustedCertificates(env), trusted, JSON.stringify(env));
  }
  for (const file of [extra, system]) await Deno.remove(file);
});
