import { createHash } from "node:crypto";
import type { Context } from "hono";
import {
  reopenFailure,
  repairPayload,
  resolveFailure,
  retryFailure,
  wakeWorker,
} from "./actions.ts";
import { faultsOf } from "./check_repair.ts";
import { type Failure, readFailure } from "./failures.ts";
import { prettyJson } from "./json_text.ts";
import { firstSentences, readForm } from "./form.ts";
import { failurePage } from "./pages/failure.ts";
import { missingPage } from "./pages/message.ts";
import { failureLink } from "./pages/parts.ts";
import { type Draft, repairPage } from "./pages/repair.ts";
import { type Project, ProjectError } from "./project.ts";
import type { Routes } from "./routes.ts";
import type { Notice } from "./session.ts";
import type { FailureKey } from "./sql.ts";
import { visibleJson } from "./visible.ts";

/** In characters: a browser's text field gets slow with more. */
const LONGEST_DRAFT = 2 * 1024 * 1024;
/** The same of many lines: a longer payload is edited as it is stored. */
const LONGEST_PRETTY = 512 * 1024;

/** Adds the page of one failure, and the actions on it. */
export function addFailureRoutes(
  { app, show, project, session, runbook, clock }: Routes,
): void {
  const { csrf } = session;

  /** Runs an action, then shows the failure with what came of it. */
  async function act(
    c: Context,
    action: (
      key: FailureKey,
      form: Awaited<ReturnType<typeof readForm>>,
    ) => Promise<Notice>,
  ): Promise<Response> {
    const form = await readForm(c);
    const key = keyOf((name) => form[name]);
    session.notice = await action(key, form).catch((error) => {
      if (!(error instanceof ProjectError)) throw error;
      return bad(`${error.message}\n${error.hint}`);
    });
    return c.redirect(failureLink(key), 303);
  }

  app.get("/failure", async (c) => {
    const failure = await readFailure(
      project,
      keyOf((name) => c.req.query(name)),
    );
    if (failure === undefined) return missing(c);
    const advice = runbook.get(failure.error_code);
    return show(c, {
      title: failure.event_id,
      content: failurePage(failure, { advice, csrf }),
    });
  });

  app.post("/failure/retry", (c) =>
    act(c, async (key) => {
      const answer = await retryFailure(project, key);
      const waking = await wakeWorker(project);
      const failure = await readFailure(project, key);
      return resultOf(failure, { answer, waking });
    }));

  app.post(
    "/failure/resolve",
    (c) =>
      act(c, async (key, { reason = "", who = "" }) => {
        const text = await resolveFailure(project, key, { reason, who });
        return { kind: "good", text };
      }),
  );

  app.post("/failure/reopen", (c) =>
    act(c, async (key) => {
      await reopenFailure(project, key);
      return { kind: "good", text: "It is open again." };
    }));

  app.get("/failure/payload", async (c) => {
    const failure = await readFailure(
      project,
      keyOf((name) => c.req.query(name)),
    );
    const which = c.req.query("which") === "original" ? "original" : "payload";
    const json = failure?.[which] ?? null;
    if (json === null) return missing(c);
    return c.body(json, 200, {
      "content-type": "text/plain; charset=utf-8",
      "content-disposition": `attachment; filename="${which}.txt"`,
    });
  });

  app.get("/failure/repair", async (c) => {
    const failure = await readFailure(
      project,
      keyOf((name) => c.req.query(name)),
    );
    if (failure === undefined) return missing(c);
    const { payload } = failure;
    if (payload === null || failure.resolved_at !== null) return missing(c);
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
    if (failure === undefined) return missing(c);
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

  function missing(c: Context): Response {
    const content = missingPage(
      "There is no such failure, or no payload to show.",
    );
    return show(c, { title: "Not found", content }, 404);
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

function resultOf(
  failure: Failure | undefined,
  { answer, waking }: { answer: string; waking: string },
): Notice {
  if (failure?.resolved_at) {
    return { kind: "good", text: `Retried: ${failure.resolution}.` };
  }
  if (failure && failure.retry_requested_at === null) {
    return bad(`Retried, and it failed again: ${failure.error_code}.`);
  }
  return {
    kind: waking === "" ? "good" : "bad",
    text: [
      firstSentences(answer),
      waking || "The worker takes it at its next turn.",
    ].join("\n"),
  };
}

/** Returns what to edit: the payload, or the text that a JSON string holds. */
function draftText({ payload, payload_encoding }: Failure): string {
  if (payload_encoding === "text") return visibleJson(JSON.parse(payload!));
  const pretty = prettyJson(payload!, { maxLength: LONGEST_PRETTY });
  return visibleJson(pretty.isCut ? payload! : pretty.text);
}

function bad(text: string): Notice {
  return { kind: "bad", text: text.trim() };
}

function hashOf(text: string): string {
  return createHash("sha256").update(text).digest("base64url");
}

function keyOf(field: (name: string) => string | undefined): FailureKey {
  return { provider: field("provider") ?? "", eventId: field("event") ?? "" };
}
