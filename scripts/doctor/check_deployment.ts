import type { RequestTools } from "../common/send_request.ts";
import type { DoctorArguments } from "./arguments.ts";
import type { Checks, Surroundings } from "./check.ts";
import { checkDatabase } from "./check_database.ts";
import { checkProject } from "./check_project.ts";
import { checkWebhook } from "./check_webhook.ts";

/**
 * Checks a deployment from the outside inwards. It stores nothing. With the
 * secret key the worker does one turn, as it does every minute anyway.
 */
export async function* checkDeployment(
  target: DoctorArguments,
  { here, tools }: { here: Surroundings; tools: RequestTools },
): Checks {
  yield* checkWebhook(target, { env: here.env, tools });
  yield* checkProject(target, tools);
  yield* checkDatabase(target, { here, tools });
}
