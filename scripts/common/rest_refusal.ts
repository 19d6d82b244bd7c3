import { asTyped } from "./how_started.ts";
import { isLoopback } from "./loopback.ts";

/**
 * Returns what a refusal of the REST API means, and how to correct it.
 *
 * @param url Of the REST API, or of its project.
 */
export function restRefusal(
  status: number,
  url: string,
): [text: string, todo: string] {
  const [text, todo] = refusalOfProject(status);
  return [text, isLoopback(url) ? localTodo(status) : todo];
}

function localTodo(status: number): string {
  switch (status) {
    case 401:
      return `Use the key that ${asTyped("start")} prints`;
    case 404:
      return `Restart the local stack, which applies the migration: ${
        asTyped("start")
      }`;
    case 406:
      return 'Add "public" to schemas in section [api] of supabase/config.toml';
    default:
      return status >= 500
        ? `Try again. If it stays so, restart the local stack: ${
          asTyped("start")
        }`
        : `Check the URL: it should be the REST API's that ${
          asTyped("start")
        } prints`;
  }
}

function refusalOfProject(status: number): [text: string, todo: string] {
  switch (status) {
    case 401:
      return [
        "the REST API refuses the secret key",
        "Use one that begins with sb_secret_ (dashboard, Project Settings, API Keys)",
      ];
    case 404:
      return [
        "the receiver's migration is not applied, or the REST API has not noticed it",
        "Run supabase db push --remote, then in the SQL editor: notify pgrst, 'reload schema';",
      ];
    case 406:
      return [
        "the REST API does not expose schema public",
        "Expose it (dashboard, Project Settings, Data API)",
      ];
    case 540:
      return [
        `the REST API answered ${status}: the project is paused`,
        "Restore it (dashboard)",
      ];
    default:
      return [
        `the REST API answered ${status}`,
        status >= 500
          ? "Try again. If it stays so, look at the database (dashboard, Reports) and at https://status.supabase.com"
          : "Check the URL: it should be a Supabase project's",
      ];
  }
}
