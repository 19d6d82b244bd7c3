import { commandLine, print, reportEnd, UsageError } from "./common/cli.ts";
import { asTyped } from "./common/environment.ts";
import { signToken } from "./local_stack/keys.ts";
import { findRunningStack } from "./common/running_stack.ts";

const LIFETIME_SECONDS = 3_600;

const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

const parse = commandLine({
  usage: "token",
  summary:
    `Prints a token for a user of the local stack, valid for an hour. It is signed
with the local stack's public secret, so nothing else accepts it.`,
  options: {
    "--user ID": "the user's ID, which auth.uid() returns",
    "--account ID": "account_id in app_metadata, for a policy that reads it",
  },
  details: "Use it as Authorization, beside the publishable key as apikey.",
});

if (import.meta.main) Deno.exit(await token(Deno.args).catch(reportEnd));

async function token(args: readonly string[]): Promise<number> {
  const { user, account } = parse(args).values;
  if (!user) throw new UsageError("The user is missing: --user=ID.");

  // auth.uid() casts the ID to uuid, so any other text makes queries fail.
  if (!UUID.test(user)) {
    throw new UsageError(
      "--user takes a UUID, such as 11111111-1111-4111-8111-111111111111.",
    );
  }

  if (!await findRunningStack(Deno.env.toObject())) {
    throw new Error(
      `A token is for the local stack, which is not running. Start it with: ${
        asTyped("start")
      }`,
    );
  }

  const nowSeconds = Math.floor(Date.now() / 1000);
  print(
    await signToken({
      iss: "supabase-demo",
      aud: "authenticated",
      role: "authenticated",
      sub: user,
      app_metadata: account === undefined ? {} : { account_id: account },
      user_metadata: {},
      iat: nowSeconds,
      exp: nowSeconds + LIFETIME_SECONDS,
    }),
  );
  return 0;
}
