import { asTyped } from "../common/how_started.ts";
import { isLoopback } from "../common/loopback.ts";
import { restRefusal } from "../common/rest_refusal.ts";

/** The database refused a call, or could not be reached. */
export class ProjectError extends Error {
  override name = "ProjectError";
  /** What to do about it. */
  readonly hint: string;
  /** PostgREST's or Postgres's, if there is one. */
  readonly code: string | undefined;

  constructor(message: string, hint: string, code?: string) {
    super(message);
    this.hint = hint;
    this.code = code;
  }
}

/** The project may have done what it was asked to, or not. */
export class UnknownOutcome extends ProjectError {
  override name = "UnknownOutcome";
}

/** For one call to the database. */
export const TIME_LIMIT_MS = 10_000;

const LOAD =
  'Try again. If it stays so, look at the database\'s load and at its locks: docs/runbook.md, "Locks".';

const PUSH =
  "supabase db push --remote, then in the SQL editor: notify pgrst, 'reload schema';";

/** The body of an error that PostgREST answers. */
export interface Refusal {
  readonly code?: string;
  readonly message: string;
  readonly hint?: string | null;
}

/** Returns what an answer of the database's API means, and what to do. */
export function refusal(
  { code, message, hint }: Refusal,
  { status, url }: { status: number; url: string },
): ProjectError {
  if (status === 0 && /timed out/.test(message)) {
    return new ProjectError(
      `${url} did not answer within ${TIME_LIMIT_MS / 1000} seconds.`,
      LOAD,
    );
  }
  if (status === 0) {
    return new ProjectError(
      `Cannot reach ${url}.`,
      isLoopback(url)
        ? `Is the local stack running? Start it with: ${asTyped("start")}`
        : "Check SUPABASE_URL and the network. A paused project does not answer either.",
    );
  }
  if (/^(PGRST20[0-5]|42883|42P01|42703|42501)$/.test(code ?? "")) {
    return new ProjectError(
      `This database lacks something that the console needs (${code}): ${message}`,
      isLoopback(url)
        ? `Restart the local stack, which applies the migration: ${
          asTyped("start")
        }`
        : code === "42501"
        ? `Check that SUPABASE_SECRET_KEY begins with sb_secret_. If it does, run ${PUSH}`
        : `Run ${PUSH}`,
    );
  }
  if (code === "57014") {
    return new ProjectError(
      "The database took too long.",
      LOAD,
    );
  }
  if (code?.match(/^[0-9A-Z]{5}$/)) {
    return new ProjectError(message, hint ?? "");
  }
  const [text, todo] = restRefusal(status, url);
  return new ProjectError(`Cannot use ${url}: ${text}.`, `${todo}.`, code);
}
