/** What it means that the REST API refuses, and what to do. */
export function restRefusal(status: number): [text: string, todo: string] {
  switch (status) {
    case 401:
      return [
        "the REST API refuses the secret key",
        "Take one that begins with sb_secret_ (dashboard, Project Settings, API Keys)",
      ];
    case 404:
      return [
        "there is no view billing_health",
        "supabase db push --remote, then in the SQL editor: notify pgrst, 'reload schema';",
      ];
    default:
      return [
        `the REST API answered ${status}`,
        "Is the schema public among the exposed ones (dashboard, Project Settings, Data API)?",
      ];
  }
}
