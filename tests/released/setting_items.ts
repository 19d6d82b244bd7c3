import { readConfig } from "../../supabase/functions/_shared/billing/config.ts";
import { readProviders } from "../../supabase/functions/billing-webhook/providers.ts";
import { chooseAlertChannel } from "../../supabase/functions/billing-worker/channels/choose_channel.ts";
import { chooseChannel } from "../../supabase/functions/billing-worker/channels/choose_channel.ts";

const EMAIL = { RESEND_API_KEY: "re_1", NOTIFICATION_FROM: "b@example.com" };

/** Environments that, together, have every setting read. */
const ENVIRONMENTS: readonly Record<string, string>[] = [
  {},
  {
    NOTIFICATION_URL: "https://accounts.example",
    ALERT_URL: "https://operator.example",
  },
  EMAIL,
];

const PLATFORM = {
  SUPABASE_URL: "https://project.example",
  SUPABASE_SERVICE_ROLE_KEY: "key",
};

const USED = { fetch, clock: Date.now, log() {}, addressOf };

/** Returns the settings that the functions read, with their defaults. */
export async function settingItems(): Promise<Record<string, string>> {
  const names = new Set<string>();
  for (const settings of ENVIRONMENTS) {
    const env = new Proxy<Record<string, string>>(
      { ...PLATFORM, ...settings },
      {
        get(target, name) {
          names.add(String(name));
          return target[String(name)];
        },
      },
    );
    await readProviders(env);
    for (const read of [readConfig, chooseChannel, chooseAlertChannel]) {
      try {
        read(env, USED);
      } catch {
        // A secret is missing, and its name was noted.
      }
    }
  }
  return Object.fromEntries([
    ...Array.from(names).sort().map((name) => [`setting ${name}`, "read"]),
    ...(await schemes()).map((scheme) => [`scheme ${scheme}`, "accepted"]),
    ...Object.entries(await defaults())
      .map(([name, value]) => [`default ${name}`, String(value)]),
  ]);
}

/** The values of settings that are not set. */
async function defaults(): Promise<Record<string, unknown>> {
  const config = readConfig(PLATFORM);
  const providers = await readProviders(PLATFORM);
  const ofProviders = providers.map(async ({ name, header, scheme, mode }) => {
    const setting = `PROVIDER_${name.toUpperCase()}`;
    const title = `${setting}_SIGNATURE_SCHEME`;
    const isDefault = await Promise.all((await schemes()).map(async (other) => {
      const all = await readProviders({ ...PLATFORM, [title]: other });
      const found = all.find((provider) => provider.name === name);
      return found?.scheme === scheme ? [other] : [];
    }));
    return {
      [`${setting}_SIGNATURE_HEADER`]: header,
      [title]: isDefault.flat().join(", "),
      [`${setting}_MODE`]: mode,
    };
  });
  return {
    ...Object.assign({}, ...await Promise.all(ofProviders)),
    SIGNATURE_TOLERANCE_SECONDS: config.toleranceSeconds,
    MAX_BODY_BYTES: config.maxBodyBytes,
    UNMAPPED_SUBSCRIPTIONS: config.unmappedSubscriptions,
    NOTIFY_ONCE_PER_INVOICE: config.oncePerInvoice,
    EMAIL_REQUESTS_PER_SECOND: chooseChannel(EMAIL, USED)?.perSecond,
  };
}

/** The signature schemes, as the receiver names them if it is given another. */
async function schemes(): Promise<string[]> {
  const [{ fault = "" } = {}] = await readProviders({
    PROVIDER_A_SIGNATURE_SCHEME: "no-such-scheme",
  });
  return fault.replace(/^.* one of /, "").split(", ");
}

function addressOf(): Promise<string | null> {
  return Promise.resolve(null);
}
