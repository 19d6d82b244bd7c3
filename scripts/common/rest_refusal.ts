/** Returns what a refusal of the REST API means, and how to correct it. */
export function restRefusal(status: number): [text: string, todo: string] {
  switch (status) {
    case 401:
      return [
        "the REST API refuses the secret key",
        "Use one that begins with sb_secret_ (dashboard, Project Settings, API Keys)",
      ];
    case 404:
      return [
        "the database lacks what this version needs",
        "Run supabase db push --remote, then in the SQL editor: notify pgrst, 'reload schema';",
      ];
    default:
      return [
        `the REST API answered ${status}`,
        "Expose the schema public (dashboard, Project Settings, Data API)",
      ];
  }
}
