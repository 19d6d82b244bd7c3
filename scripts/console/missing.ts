import type { Context } from "hono";
import { missingPage } from "./pages/message.ts";
import type { Routes } from "./routes.ts";

/** Answers that there is no such failure, or nothing of it to show. */
export function showMissing(c: Context, { show }: Routes): Response {
  const content = missingPage(
    "There is no such failure, or no payload to show.",
  );
  return show(c, { title: "Not found", content }, 404);
}
