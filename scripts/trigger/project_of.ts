import type { Environment } from "../common/environment.ts";
import { checkedKey, checkedProjectUrl } from "../common/option_values.ts";
import type { RunningStack } from "../common/running_stack.ts";
import type { Project } from "./read_result.ts";

/** Returns the project that a URL belongs to, if its secret key is known. */
export function projectOf(
  url: string,
  { local, env }: {
    readonly local: RunningStack | undefined;
    readonly env: Environment;
  },
): Project | undefined {
  const { SUPABASE_URL: hosted, SUPABASE_SECRET_KEY: hostedKey } = env;
  const projects: Project[] = [
    ...(local ? [{ url: local.apiUrl, secretKey: local.secretKey }] : []),
    ...(hosted && hostedKey
      ? [{
        url: checkedProjectUrl("SUPABASE_URL", hosted),
        secretKey: checkedKey("SUPABASE_SECRET_KEY", hostedKey),
      }]
      : []),
  ];
  return projects.find((project) => url.startsWith(`${project.url}/`));
}
