import { runTool } from "../../scripts/common/run_tool.ts";
import { toolEnvironment } from "../../scripts/common/create_command.ts";

/** A key and a certificate that is its own authority. */
export async function makeCertificate(
  path: string,
  name: string,
): Promise<void> {
  await runTool({
    purpose: "make a certificate",
    command: "openssl",
    args: [
      "req",
      "-x509",
      "-newkey",
      "ec",
      "-pkeyopt",
      "ec_paramgen_curve:prime256v1",
      "-nodes",
      "-days",
      "1",
      "-subj",
      `/CN=${name}`,
      "-addext",
      `subjectAltName=DNS:${name}`,
      "-keyout",
      `${path}.key`,
      "-out",
      `${path}.crt`,
    ],
    env: toolEnvironment(),
    cwd: "/",
  });
}
