/** The environment, as `Deno.env.toObject()` gives it. */
export type Environment = Readonly<Record<string, string | undefined>>;

/** Where the database is reached, and the limits of a delivery. */
export interface Config {
  readonly supabaseUrl: string;
  readonly secretKey: string;
  /** How far a signature's time may be from now, on both sides, in seconds. */
  readonly toleranceSeconds: number;
  readonly maxBodyBytes: number;
}

/**
 * Reads the configuration that all providers share.
 *
 * @throws {Error} naming the variable and what it has to be.
 */
export function readConfig(env: Environment): Config {
  return {
    supabaseUrl: required(env, "SUPABASE_URL"),
    secretKey: secretKey(env),
    toleranceSeconds: wholeNumber(env, "SIGNATURE_TOLERANCE_SECONDS", 300),
    maxBodyBytes: wholeNumber(env, "MAX_BODY_BYTES", 1_048_576),
  };
}

/** The project's secret key: the map of new keys first, the legacy name second. */
function secretKey(env: Environment): string {
  const keys = env.SUPABASE_SECRET_KEYS;
  if (keys) {
    const key: unknown = parseKeyMap(keys).default;
    if (typeof key === "string" && key !== "") return key;
  }
  return required(env, "SUPABASE_SERVICE_ROLE_KEY");
}

function parseKeyMap(json: string): Record<string, unknown> {
  try {
    const map: unknown = JSON.parse(json);
    if (typeof map === "object" && map !== null) return { ...map };
  } catch {
    // Said below, without the text of the error: it would repeat a part of a key.
  }
  throw new Error("Cannot start: SUPABASE_SECRET_KEYS is not a JSON object.");
}

function required(env: Environment, name: string): string {
  const value = env[name];
  if (!value) {
    throw new Error(
      `Cannot start: ${name} is not set. Supabase sets it by itself; elsewhere, set it in the environment.`,
    );
  }
  return value;
}

function wholeNumber(
  env: Environment,
  name: string,
  standard: number,
): number {
  const text = env[name];
  if (text === undefined || text === "") return standard;
  if (!/^[1-9]\d{0,9}$/.test(text)) {
    throw new Error(
      `Cannot start: ${name} must be a whole number above 0, not "${text}".`,
    );
  }
  return Number(text);
}
