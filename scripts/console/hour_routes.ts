import { createHourCounter } from "./hour_counts.ts";
import { chartImage } from "./pages/chart.ts";
import { hoursPage } from "./pages/hours.ts";
import type { Routes } from "./routes.ts";

/** Adds the chart of events per hour, and the page with its table. */
export function addHourRoutes({ app, show, project, clock }: Routes): void {
  const counter = createHourCounter(project, clock);

  // An action may change the numbers.
  app.post("*", async (_c, next) => {
    await next();
    counter.forget();
  });

  app.get("/hours.svg", async (c) => {
    const scheme = c.req.query("scheme") === "dark" ? "dark" : "light";
    const image = chartImage(await counter.count(), scheme);
    return c.body(`${image}`, 200, { "content-type": "image/svg+xml" });
  });

  app.get("/hours", async (c) => {
    const hours = await counter.count();
    return show(c, { title: "Events per hour", content: hoursPage(hours) });
  });
}
