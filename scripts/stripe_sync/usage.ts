import { PROVIDER_NAMES } from "../common/provider_settings.ts";
import { LOCAL_PROJECT } from "./arguments.ts";

/** For `--help`. */
export const TARGET_USAGE =
  `  --mode test|live     must be said for a live key, and for a project that is not
                       on this machine; must agree with the key
  --provider NAME      whose subscriptions they are in the tables:
                       ${PROVIDER_NAMES.join(" or ")} (default: a)
  --account-from KEY   where metadata.accountId is not set: another key of the
                       subscription's metadata, or "customer" for its customer
  --project-url URL    https://<project-ref>.supabase.co, also SUPABASE_URL
                       (default: the local stack's, ${LOCAL_PROJECT})
  --stripe-url URL     a stand-in on this machine instead of Stripe, for tests
  --help               this text

Environment:
  SUPABASE_SECRET_KEY  sb_secret_... (default: the local stack's, for a project on
                       this machine); --secret-key still works, but other users of
                       this machine can read it
  STRIPE_API_KEY       sk_test_..., rk_test_..., sk_live_... or rk_live_...; a
                       restricted key (rk_) needs to read subscriptions and events
  UNMAPPED_SUBSCRIPTIONS
                       as the receiver has it: with "ignore", a subscription
                       without an account id is nothing to complain of`;
