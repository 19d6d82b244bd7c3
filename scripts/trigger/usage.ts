import { LOCAL_WEBHOOK_URL } from "../common/local_webhook_url.ts";
import { API_VERSIONS, EVENT_TYPES } from "../events/templates.ts";
import { PROVIDER_NAMES } from "../common/provider_settings.ts";

/** What `--help` and a wrong command line print. */
export const USAGE =
  `Signs a realistic event as the provider does, and sends it.

Usage: deno task trigger <event type> [options]

Event types:
${EVENT_TYPES.map((type) => `  ${type}`).join("\n")}

Options:
  --provider NAME      who sends it: ${PROVIDER_NAMES.join(" or ")} (default: a)
  --subscription ID    default: sub_local_a and so on, by provider
  --account ID         default: acc_local
  --event ID           default: a new id; the same id again is a duplicate
  --url URL            default: ${LOCAL_WEBHOOK_URL}
  --status STATUS      of the subscription (default: active, past_due or
                       canceled, by type)
  --plan ID            of the subscription
  --created SECONDS    when it occurred, in Unix time (default: now)
  --api-version VERSION
                       ${API_VERSIONS.join(" or ")} (default: ${
    API_VERSIONS[0]
  })
  --payload FILE       sign and send a file as it is, instead of an event type
  --help               this text

Prints the status and the body of the answer on standard output. The exit status
is 0 for 2xx, 1 for anything else, 2 for a wrong command line.

The secrets are the functions': from the environment, supabase/functions/.env,
or else those of the local stack.
`;
