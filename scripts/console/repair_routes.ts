import { createHash } from "node:crypto";
import type { Context } from "hono";
import { repairPayload } from "./actions.ts";
import { faultsOf } from "./check_repair.ts";
import { type Failure, readFailure } from "./failures.ts";
import { keyOf, readForm } from "./form.ts";
import { prettyJson } from "./json_text.ts";
import { showMissing } from "./missing.ts";
import { failureLink } from "./pages/parts.ts";
import { type Draft, repairPage } from "./pages/repair.ts";
import { type Project, ProjectError } from "./project.ts";
import type { Routes } from "./routes.ts";
import type { FailureKey } from "./sql.ts";
import { visibleJson } from "./visible.ts";

/** In characters: a browser's text field gets slow with more. */
const LONGEST_DRAFT = 2 * 1024 * 1024;
/** The same of many lines: a longer payload is edited as it is stored. */
const LONGEST_PRETTY = 512 * 1024;

/** Adds the page on which a payload is edited. */
export function addRepairRoutes(routes: Routes): void {
  const { app, show, project, session, clock } = routes;
  const { csrf } = session;

  app.get("/failure/repair", async (c) => {
    const failure = await readFailure(
      project,
      keyOf((name) => c.req.query(name)),
    );
    if (failure === undefined) return showMissing(c, routes);
    const { payload } = failure;
    if (payload === null || failure.resolved_at !== null) {
      return showMissing(c, routes);
    }
    if (payload.length > LONGEST_DRAFT) {
      throw new ProjectError(
        "This payload is too long to edit in a browser.",
        "Repair it in the SQL editor: see docs/runbook.md.",
      );
    }
    const draft = {
      text: draftText(failure),
      hash: hashOf(payload),
      faults: [],
    };
    return showDraft(c, { failure, draft });
  });

  app.post("/failure/repair", async (c) => {
    const form = await readForm(c);
    const key = keyOf((name) => form[name]);
    const { text = "", hash = "" } = form;
    const failure = await readFailure(project, key);
    if (failure === undefined) return showMissing(c, routes);
    const faults = hash === hashOf(failure.payload ?? "")
      ? await save(project, { key, text, nowSeconds: clock() / 1000 })
      : [
        "Somebody has changed the payload since you opened this page. Copy your text, and begin again with Cancel.",
      ];
    if (faults.length > 0) {
      return showDraft(c, { failure, draft: { text, hash, faults } }, 422);
    }
    session.notice = {
      kind: "good",
      text:
        "Saved. Now retry the event: until then, deliveries of it are refused, so that the old payload is not applied.",
    };
    return c.redirect(failureLink(key), 303);
  });

  function showDraft(
    c: Context,
    { failure, draft }: { failure: Failure; draft: Draft },
    status: 200 | 422 = 200,
  ): Response {
    const content = repairPage(failure, { draft, csrf });
    return show(c, { title: "Repair", content }, status);
  }
}

/** Stores a payload if the receiver would accept it; returns the faults. */
async function save(
  project: Project,
  { key, text, nowSeconds }: {
    key: FailureKey;
    text: string;
    nowSeconds: number;
  },
): Promise<readonly string[]> {
  const faults = faultsOf(text, nowSeconds);
  if (faults.length > 0) return faults;
  try {
    await repairPayload(project, key, text);
    return [];
  } catch (error) {
    if (!(error instanceof ProjectError)) throw error;
    return [`${error.message} ${error.hint}`.trim()];
  }
}

/** Returns what to edit: the payload, or the text that a JSON string holds. */
function draftText({ payload, payload_encoding }: Failure): string {
  if (payload_encoding === "text") return visibleJson(JSON.parse(payload!));
  const pretty = prettyJson(payload!, { maxLength: LONGEST_PRETTY });
  return visibleJson(pretty.isCut ? payload! : pretty.text);
}

function hashOf(text: string): string {
  return createHash("sha256").update(text).digest("base64url");
}
