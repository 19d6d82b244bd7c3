import { createHash } from "node:crypto";
import type { Context } from "hono";
import { faultsOf } from "./check_repair.ts";
import { type Failure, readFailure } from "./failures.ts";
import { keyOf, readForm } from "./form.ts";
import { prettyJson } from "./json_text.ts";
import { failureLink } from "./links.ts";
import { showMissing } from "./missing.ts";
import { repairPage } from "./pages/repair.ts";
import { ProjectError, UnknownOutcome } from "./refusal.ts";
import { repairPayload } from "./repair_payload.ts";
import type { Routes } from "./routes.ts";
import { visibleJson } from "./visible.ts";

/** In characters: a browser's text field gets slow with more. */
const LONGEST_DRAFT = 2 * 1024 * 1024;
/** The same of many lines: a longer payload is edited as it is stored. */
const LONGEST_PRETTY = 512 * 1024;

const CHANGED =
  "Somebody has changed the payload since you opened this page. Copy your text, and begin again with Cancel.";

/** Adds the page on which a payload is edited. */
export function addRepairRoutes(routes: Routes): void {
  const { app, show, showResult, project, session, clock } = routes;
  const { csrf } = session;

  app.get("/failure/repair", async (c) => {
    const key = keyOf((name) => c.req.query(name));
    const failure = await readFailure(project, key);
    if (failure === undefined) return showMissing(c, routes);
    const { payload } = failure;
    if (payload === null || failure.resolved_at !== null) {
      return c.redirect(failureLink(key), 303);
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
    return showDraft(c, { key, draft, failure });
  });

  app.post("/failure/repair", async (c) => {
    const form = await readForm(c);
    const key = keyOf((name) => form[name]);
    const { text = "", hash = "" } = form;

    function refuse(
      faults: readonly string[],
      heading = "Not saved",
    ): Response {
      return showDraft(c, { key, draft: { text, hash, faults, heading } }, 422);
    }

    try {
      const failure = await readFailure(project, key);
      if (failure === undefined) return showMissing(c, routes);
      if (hash !== hashOf(failure.payload ?? "")) return refuse([CHANGED]);
      const faults = faultsOf(text, { ...key, nowSeconds: clock() / 1000 });
      if (faults.length > 0) return refuse(faults);
      const version = failure.version!; // the view computes it
      await repairPayload(project, key, { json: text, version });
      return showResult(c, failureLink(key), {
        kind: "good",
        text: failure.retry_requested_at === null
          ? "Saved. Now retry the event: until then, deliveries of it are refused, so that the old payload is not applied."
          : "Saved. A retry is requested already: the worker applies this payload at its next turn.",
      });
    } catch (error) {
      if (!(error instanceof ProjectError)) throw error;
      return refuse(
        [`${error.message} ${error.hint}`.trim()],
        error instanceof UnknownOutcome ? "Perhaps not saved" : "Not saved",
      );
    }
  });

  function showDraft(
    c: Context,
    page: Parameters<typeof repairPage>[0],
    status: 200 | 422 = 200,
  ): Response {
    const content = repairPage(page, csrf);
    return show(c, { title: "Repair", content }, status);
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
