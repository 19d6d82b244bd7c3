/**
 * Both versions of Deno on a machine that names its own certificates, as for a
 * proxy that inspects TLS.
 */
import { assertEquals } from "@std/assert";
import {
  createCommand,
  trustedCertificates,
} from "../../scripts/common/create_command.ts";
import { edgeDenoPath } from "../../scripts/dev/downloads.ts";
import { AUTHORITY, CERTIFICATE, KEY } from "../support/certificates.ts";

Deno.test("every Deno trusts the certificates that the machine names, and no others", async () => {
  const file = await Deno.makeTempFile({ suffix: ".pem" });
  await Deno.writeTextFile(file, AUTHORITY);
  const listen = { hostname: "127.0.0.1", port: 0, onListen() {} };
  const tls = { cert: CERTIFICATE, key: KEY };
  const server = Deno.serve({ ...listen, ...tls }, () => new Response("OK"));
  const code = `console.log(await fetch("https://localhost:${server.addr.port}")
    .then((answer) => answer.text(), (error) => error.name))`;
  for (const deno of [Deno.execPath(), await edgeDenoPath()]) {
    for (
      const [machine, answer] of [
        [{ NODE_EXTRA_CA_CERTS: file }, "OK"],
        [{ SSL_CERT_FILE: file }, "OK"],
        [{}, "TypeError"],
      ] as const
    ) {
      const trusted = trustedCertificates(machine);
      const { stdout } = await createCommand(deno, {
        args: ["eval", "--no-config", "--no-lock", code],
        cwd: "/",
        clearEnv: true,
        env: { ...machine, ...trusted, NO_PROXY: "localhost" },
      }).output();
      const said = new TextDecoder().decode(stdout).trim();
      assertEquals(said, answer, `${deno}, ${Object.keys(machine)}`);
    }
  }
  await server.shutdown();
  await Deno.remove(file);
});
