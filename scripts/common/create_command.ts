import { trustedCertificates } from "./trusted_certificates.ts";

/**
 * Returns a command whose process trusts the certificates that this machine
 * trusts. Everything that this project starts is made here, because Deno and
 * the tools of npm may download something wherever they run.
 *
 * @param options Those of `Deno.Command`.
 */
export function createCommand(
  program: string,
  options: Deno.CommandOptions = {},
): Deno.Command {
  return new Deno.Command(program, {
    ...options,
    env: { ...trustedCertificates(Deno.env.toObject()), ...options.env },
  });
}
