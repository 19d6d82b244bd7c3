import { restHeaders } from "../common/rest_headers.ts";
import { restRefusal } from "../common/rest_refusal.ts";
import { type RequestTools, sendRequest } from "../common/send_request.ts";
import { type Check, failed } from "./check.ts";
import { instructionsFor } from "./instructions.ts";

/**
 * Reads a view, or what a function answers, through a project's REST API with
 * the secret key, old or new.
 *
 * @returns The rows, or the failed check that says why there are none.
 */
export async function readApi<Row>(
  url: string,
  { secretKey, tools }: { secretKey: string; tools: RequestTools },
): Promise<{ rows: readonly Row[] } | { refusal: Check }> {
  const reply = await sendRequest(url, {
    headers: restHeaders(secretKey),
  }, tools);
  if ("fault" in reply) {
    return {
      refusal: failed(
        `cannot reach the REST API: ${reply.fault}`,
        instructionsFor(url).reach,
      ),
    };
  }
  const { status } = reply;
  const rows = status === 200 ? parseRows<Row>(reply.body) : undefined;
  return rows === undefined
    ? { refusal: failed(...restRefusal(status, url)) }
    : { rows };
}

/** Returns undefined for what is not from the REST API, such as a website. */
function parseRows<Row>(body: string): readonly Row[] | undefined {
  try {
    const rows = JSON.parse(body);
    return Array.isArray(rows) ? rows : undefined;
  } catch {
    return undefined;
  }
}
