/**
 * The environment of the Supabase CLI in tests, to start it with a third less
 * processor time: it is a program for Bun, whose compiler for code that runs
 * often is not done by the time that a command ends. Bun promises nothing about
 * this setting. If a later CLI refuses it, empty this list.
 */
export const CLI_ENVIRONMENT = { BUN_JSC_useDFGJIT: "0" } as const;
