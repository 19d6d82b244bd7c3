/**
 * Both versions of Deno on a machine that names its own certificates, as for a
 * proxy that inspects TLS.
 *
 * @module
 */
import { assertEquals } from "@std/assert";
import {
  createCommand,
  trustedCertificates,
} from "../../scripts/common/create_command.ts";
import { edgeDenoPath } from "../../scripts/dev/downloads.ts";
import { makeCertificates } from "../support/certificates.ts";

const DENOS = [Deno.execPath(), await edgeDenoPath()];

/** Runs `use` with a server, and the file with its authority's certificate. */
async function withServer(
  use: (server: { url: string; file: string }) => Promise<void>,
): Promise<void> {
  const { authority, certificate, key } = await makeCertificates("localhost");
  const file = await Deno.makeTempFile({ suffix: ".pem" });
  await Deno.writeTextFile(file, authority);
  const server = Deno.serve(
    {
      hostname: "127.0.0.1",
      port: 0,
      cert: certificate,
      key,
      onListen: () => {},
    },
    () => new Response("OK"),
  );
  try {
    await use({ url: `https://localhost:${server.addr.port}`, file });
  } finally {
    await server.shutdown();
    await Deno.remove(file);
  }
}

/** What a Deno answers that asks for a URL, on a machine with these settings. */
async function ask(
  deno: string,
  { url, machine }: { url: string; machine: Record<string, string> },
): Promise<string> {
  const code = `try { console.log(await (await fetch("${url}")).text()); }
    catch (error) { console.log(error.name); }`;
  const { stdout } = await createCommand(deno, {
    args: ["eval", "--no-config", "--no-lock", code],
    cwd: "/",
    clearEnv: true,
    env: { ...machine, ...trustedCertificates(machine), NO_PROXY: "localhost" },
  }).output();
  return new TextDecoder().decode(stdout).trim();
}

for (const name of ["NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE"]) {
  Deno.test(`every Deno trusts the certificates that ${name} names`, async () => {
    await withServer(async ({ url, file }) => {
      const machine = { [name]: file };
      for (const deno of DENOS) {
        assertEquals(await ask(deno, { url, machine }), "OK", deno);
      }
    });
  });
}

Deno.test("no Deno trusts a certificate that the machine does not", async () => {
  await withServer(async ({ url }) => {
    for (const deno of DENOS) {
      assertEquals(await ask(deno, { url, machine: {} }), "TypeError", deno);
    }
  });
});
