/** Where `deno task start` and `supabase functions serve` have the receiver. */
export const LOCAL_WEBHOOK_URL =
  "http://127.0.0.1:54321/functions/v1/billing-webhook";
