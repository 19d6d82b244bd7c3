import { asTyped } from "../common/how_started.ts";
import type { Project } from "./project.ts";

/** A page waits this long for the worker's turn. */
const WORKER_WAIT_MS = 8_000;

/**
 * Wakes the worker, and waits a few seconds for its turn to end.
 *
 * @returns what to tell the operator; empty if the turn is over
 */
export async function wakeWorker(project: Project): Promise<string> {
  try {
    const response = await project.request("/functions/v1/billing-worker", {
      method: "POST",
      signal: AbortSignal.timeout(WORKER_WAIT_MS),
    });
    await response.body?.cancel();
    return response.ok
      ? ""
      : `The worker answered ${response.status}: look at its log, and check the deployment with ${
        asTyped("doctor")
      }.`;
  } catch (error) {
    return (error as Error).name === "TimeoutError"
      ? "The worker is still at work: reload this page in a moment."
      : "The worker could not be reached. Its schedule, if there is one, wakes it within a minute.";
  }
}
