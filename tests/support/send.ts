import {
  type Environment,
  LOCAL_SIGNING_SECRETS,
} from "../../scripts/common/environment.ts";
import {
  type ProviderName,
  providerSettings,
  signatureHeaders,
} from "../../scripts/common/sign.ts";
import { limited } from "./hang_limit.ts";

export type { ProviderName };

export interface Answer {
  readonly status: number;
  readonly body: string;
  readonly headers: Headers;
}

/** Signs a body as a provider with these settings, and delivers it. */
export async function deliver(
  url: string,
  body: object | string | Uint8Array<ArrayBuffer>,
  { provider = "a", env = {}, signal = null }: {
    provider?: ProviderName;
    env?: Environment;
    signal?: AbortSignal | null;
  } = {},
): Promise<Answer> {
  const bytes = typeof body === "string" || body instanceof Uint8Array
    ? body
    : JSON.stringify(body);
  const settings = { ...LOCAL_SIGNING_SECRETS, ...env };
  const headers = signatureHeaders({
    ...providerSettings(settings, provider),
    body: bytes,
  });
  return await post(url, { headers, body: bytes, signal });
}

/** Sends a request and reads its answer to the end, within the hang limit. */
export async function post(url: string, init: RequestInit): Promise<Answer> {
  async function answer() {
    const response = await fetch(url, { method: "POST", ...init });
    const { status, headers } = response;
    return { status, headers, body: await response.text() };
  }
  return await limited(answer(), `an answer from ${url}`);
}
