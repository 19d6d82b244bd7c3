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

for (
  const [name, answer] of [
    ["NODE_EXTRA_CA_CERTS", "OK"],
    ["SSL_CERT_FILE", "OK"],
    ["ANOTHER", "TypeError"],
  ] as const
) {
  Deno.test(`with a certificate in ${name}, every Deno gets: ${answer}`, async () => {
    const { authority, ...server } = await makeCertificates("localhost");
    const file = await Deno.makeTempFile({ suffix: ".pem" });
    await Deno.writeTextFile(file, authority);
    const { certificate: cert, key } = server;
    await using served = Deno.serve(
      { hostname: "127.0.0.1", port: 0, cert, key, onListen() {} },
      () => new Response("OK"),
    );
    const machine = { [name]: file };
    const code = `try {
      console.log(await (await fetch("https://localhost:${served.addr.port}")).text());
    } catch (error) { console.log(error.name); }`;
    for (const deno of [Deno.execPath(), await edgeDenoPath()]) {
      const { stdout } = await createCommand(deno, {
        args: ["eval", "--no-config", "--no-lock", code],
        cwd: "/",
        clearEnv: true,
        env: { ...machine, ...trustedCertificates(machine), NO_PROXY: "*" },
      }).output();
      assertEquals(new TextDecoder().decode(stdout).trim(), answer, deno);
    }
    await Deno.remove(file);
  });
}
