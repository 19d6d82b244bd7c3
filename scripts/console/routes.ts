import type { Context, Hono } from "hono";
import type { Html } from "./html.ts";
import type { Project } from "./project.ts";
import type { Advice } from "./runbook.ts";
import type { Notice, Session } from "./session.ts";

/** What the pages are made from. */
export interface ConsoleOptions {
  readonly project: Project;
  readonly session: Session;
  readonly runbook: ReadonlyMap<string, Advice>;
  readonly style: string;
  /** Returns the address that the console listens on, with its port. */
  readonly host: () => string;
  /** Returns milliseconds since the epoch. */
  readonly clock: () => number;
}

/** What routes need. */
export interface Routes extends ConsoleOptions {
  readonly app: Hono;
  /** Answers with a page. */
  readonly show: (
    c: Context,
    page: { title: string; content: Html },
    status?: 200 | 404 | 422 | 502,
  ) => Response;
  /** Sends the browser to a page, which shows the result of an action once. */
  readonly showResult: (c: Context, path: string, notice: Notice) => Response;
}
