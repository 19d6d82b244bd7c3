/**
 * Stand-ins for what docs/nextjs imports: Next and React are not installed, there is no
 * sign-in, and Stripe is a server of the test. `import_map.json` maps them.
 */
import type { SupabaseClient } from "@supabase/supabase-js";
import { Stripe } from "stripe";
import type { Database } from "../../supabase/functions/_shared/billing/database/database.types.ts";
import { loadAppCode } from "./app_page.ts";

// Hono's code with React's types.
// @ts-types="@types/react/jsx-runtime"
import type { JSX } from "hono/jsx/jsx-runtime";
// @ts-types="@types/react/jsx-runtime"
export * from "hono/jsx/jsx-runtime";

const code = await loadAppCode();
await code[Symbol.asyncDispose]();

/** With a function of docs/nextjs/billing.sql. */
type AppDatabase = Database & {
  public: {
    Functions: {
      use_feature: { Args: { feature: string; n?: number }; Returns: boolean };
    };
  };
};

/** As on the page: the client of the user whose token is in LOCAL_TOKEN. */
export const createClient = code.createClient as () => SupabaseClient<
  AppDatabase
>;

/** Waits, where React's streams. */
export function Suspense(
  { children }: { children: JSX.Element; fallback: JSX.Element },
): JSX.Element {
  return children;
}

/** Throws, as Next's does. */
export function redirect(url: string): never {
  throw new Error(`NEXT_REDIRECT ${url}`);
}

export default class extends Stripe {
  constructor(key: string) {
    const { hostname: host, port } = new URL(Deno.env.get("TEST_STRIPE_URL")!);
    super(key, { protocol: "http", host, port });
  }
}
