import type postgres from "postgres";
import type { RequestTools } from "../common/send_request.ts";
import { type Check, failed, ok, skipped } from "./check.ts";
import { type Instructions, instructionsFor } from "./instructions.ts";
import { readApi } from "./read_api.ts";

/** A row of public.excess_billing_rights(). */
interface Excess {
  /** Such as `table public.failed_events`. */
  readonly object: string;
  /** Such as `anon: select`. */
  readonly excess: string;
}

/** Named in the line; the others are counted. */
const NAMED = 3;

/**
 * Checks, in the database, that anon, authenticated and PUBLIC have no right that
 * was not granted on purpose, and that row level security is on.
 */
export async function checkRights(
  sql: postgres.Sql,
  instructions: Instructions,
): Promise<Check> {
  const [found] = await sql`
    select to_regproc('public.excess_billing_rights') is not null as is_there`;
  if (!found?.is_there) return skipped("apply the migrations first");
  return rightsCheck(
    await sql<Excess[]>`select * from public.excess_billing_rights()`,
    instructions,
  );
}

/** Checks the same through the REST API, for which the secret key is enough. */
export async function checkRightsThroughApi(
  projectUrl: string,
  { secretKey, tools }: { secretKey: string; tools: RequestTools },
): Promise<Check> {
  const reply = await readApi<Excess>(
    `${projectUrl}/rest/v1/rpc/excess_billing_rights`,
    { secretKey, tools },
  );
  return "refusal" in reply
    ? reply.refusal
    : rightsCheck(reply.rows, instructionsFor(projectUrl));
}

function rightsCheck(
  rows: readonly Excess[],
  { query }: Instructions,
): Check {
  if (rows.length === 0) {
    return ok(
      "anon, authenticated and PUBLIC have none that was not granted on purpose",
    );
  }
  const named = rows.slice(0, NAMED).map(({ object, excess }) =>
    `${object} (${excess})`
  );
  const others = rows.length - named.length;
  return failed(
    `${rows.length} ${
      rows.length === 1 ? "object is" : "objects are"
    } open to others: ${named.join(", ")}${
      others > 0 ? ` and ${others} more` : ""
    }`,
    query("select public.revoke_billing_rights();"),
  );
}
