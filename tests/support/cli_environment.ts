/**
 * Settings of the Supabase CLI in tests, which save a third of the processor time
 * of a command: the CLI runs on Bun, whose optimizing compiler does not pay off in
 * so short a time. Bun does not document this setting. If a later CLI refuses it,
 * remove it.
 */
export const CLI_ENVIRONMENT = { BUN_JSC_useDFGJIT: "0" } as const;
