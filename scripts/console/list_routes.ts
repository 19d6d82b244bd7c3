import { requestRetries, resendNotifications } from "./actions.ts";
import { filterFields, readFailureFilter } from "./failure_filter.ts";
import { firstSentences, readForm } from "./form.ts";
import { countToRetry, listFailures } from "./failures.ts";
import { link } from "./links.ts";
import { readOverview } from "./overview.ts";
import { failuresPage } from "./pages/failures.ts";
import { retryAllPage } from "./pages/retry_all.ts";
import { notificationsPage } from "./pages/notifications.ts";
import { overviewPage } from "./pages/overview.ts";
import { searchPage, subscriptionPage } from "./pages/records.ts";
import {
  GIVEN_UP,
  listNotifications,
  readSubscription,
  search,
  UNSENT,
} from "./records.ts";
import type { Routes } from "./routes.ts";
import { wakeWorker } from "./wake_worker.ts";

/** Adds the pages with lists, and the actions on many rows. */
export function addListRoutes(
  { app, show, showResult, project, session, runbook }: Routes,
): void {
  const { csrf } = session;

  app.get("/", async (c) => {
    const overview = await readOverview(project);
    return show(c, {
      title: "Overview",
      content: overviewPage(overview, runbook),
    });
  });

  app.get("/failures", async (c) => {
    const filter = readFailureFilter((name) => c.req.query(name));
    const page = readPage(c.req.query("page"));
    const list = await listFailures(project, { filter, page });
    // While the operator read it, failures were resolved.
    if (list === undefined) {
      return c.redirect(link("/failures", filterFields(filter)), 303);
    }
    return show(c, {
      title: "Failures",
      content: failuresPage({ filter, page, ...list }, [...runbook.keys()]),
    });
  });

  app.get("/failures/retry", async (c) => {
    const filter = readFailureFilter((name) => c.req.query(name));
    const count = await countToRetry(project, filter);
    return show(c, {
      title: "Retry",
      content: retryAllPage({ filter, count, csrf }),
    });
  });

  app.post("/failures/retry", async (c) => {
    const form = await readForm(c);
    const filter = readFailureFilter((name) => form[name]);
    const answer = await requestRetries(project, filter);
    const waking = await wakeWorker(project);
    return showResult(c, "/failures", {
      kind: waking === "" ? "good" : "bad",
      text: [
        firstSentences(answer),
        waking ||
        "The worker has taken its turn: what is still listed failed again, or waits for its next turn, such as behind a lock of another session.",
      ].join("\n"),
    });
  });

  app.get("/subscription", async (c) => {
    const id = c.req.query("id") ?? "";
    const view = await readSubscription(project, id);
    return show(c, { title: id, content: subscriptionPage(id, view) });
  });

  app.get("/search", async (c) => {
    // No ID has a NUL, but what is pasted may.
    const q = (c.req.query("q") ?? "").replaceAll("\0", "").trim();
    const found = await search(project, q);
    return show(c, { title: "Search", content: searchPage(q, found) });
  });

  app.get("/notifications", async (c) => {
    const chosen = UNSENT.find((state) => state === c.req.query("status"));
    const [list, { count: givenUp }] = await Promise.all([
      listNotifications(project, chosen === undefined ? UNSENT : [chosen]),
      listNotifications(project, GIVEN_UP),
    ]);
    return show(c, {
      title: "Notifications",
      content: notificationsPage({
        ...list,
        chosen: chosen ?? "",
        givenUp,
        csrf,
      }),
    });
  });

  app.post("/notifications/send", async (c) => {
    const { id } = await readForm(c);
    const count = await resendNotifications(project, id);
    const waking = await wakeWorker(project);
    return showResult(c, "/notifications", {
      kind: waking === "" ? "good" : "bad",
      text: [`${count} made due again.`, waking].join("\n").trim(),
    });
  });
}

function readPage(text: string | undefined): number {
  return /^[1-9]\d{0,4}$/.test(text ?? "") ? Number(text) : 1;
}
