import type { Context } from "hono";
import { reopenFailure, requestRetry, resolveFailure } from "./actions.ts";
import { type Failure, readFailure } from "./failures.ts";
import { firstSentences, keyOf, readForm } from "./form.ts";
import { failureLink } from "./links.ts";
import { showMissing } from "./missing.ts";
import { failurePage } from "./pages/failure.ts";
import { ProjectError } from "./refusal.ts";
import type { Routes } from "./routes.ts";
import type { Notice } from "./session.ts";
import type { FailureKey } from "./sql.ts";
import { wakeWorker } from "./wake_worker.ts";

/** Adds the page of one failure, and the actions on it. */
export function addFailureRoutes(
  routes: Routes,
): void {
  const { app, show, showResult, project, session, runbook } = routes;
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
    const notice = await action(key, form).catch((error) => {
      if (!(error instanceof ProjectError)) throw error;
      return bad(`${error.message}\n${error.hint}`);
    });
    return showResult(c, failureLink(key), notice);
  }

  app.get("/failure", async (c) => {
    const failure = await readFailure(
      project,
      keyOf((name) => c.req.query(name)),
    );
    if (failure === undefined) return showMissing(c, routes);
    const advice = runbook.get(failure.error_code);
    return show(c, {
      title: failure.event_id,
      content: failurePage(failure, { advice, csrf }),
    });
  });

  app.post("/failure/retry", (c) =>
    act(c, async (key) => {
      const answer = await requestRetry(project, key);
      if (!answer.startsWith("Retry requested")) return bad(answer);
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
    if (json === null) return showMissing(c, routes);
    return c.body(json, 200, {
      "content-type": "text/plain; charset=utf-8",
      "content-disposition": `attachment; filename="${which}.txt"`,
    });
  });
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
  if (waking === "" && failure?.retry_lease_id) {
    return bad(
      `${firstSentences(answer)}
The worker has claimed it and has no result: most likely another session has locked its record. The worker tries it again at its next run. To find that session: docs/runbook.md, "Locks".`,
    );
  }
  return {
    kind: waking === "" ? "good" : "bad",
    text: [
      firstSentences(answer),
      waking || "The worker takes it at its next turn.",
    ].join("\n"),
  };
}

function bad(text: string): Notice {
  return { kind: "bad", text: text.trim() };
}
