import type { ApiRequest } from "./api_requests.ts";

/** Headers, by the name of the caller. */
export type Callers = Readonly<Record<string, Record<string, string>>>;

/** Returns each request that was not refused for a missing right. */
export async function apiFaults(
  url: string,
  { requests, callers }: {
    requests: readonly ApiRequest[];
    callers: Callers;
  },
): Promise<string[]> {
  const faults: string[] = [];
  for (const [caller, headers] of Object.entries(callers)) {
    for (const { method, path, body = null, refusedWith } of requests) {
      const response = await fetch(url + path, {
        method,
        headers: { ...headers, "content-type": "application/json" },
        body,
      });
      const text = await response.text();
      if (isRefusal(response.status, { text, refusedWith })) continue;
      faults.push(
        `${method} ${path} with ${caller}: ${response.status} ${text}`,
      );
    }
  }
  return faults;
}

function isRefusal(
  status: number,
  { text, refusedWith }: { text: string; refusedWith: string },
): boolean {
  if (status < 400 || !text.includes(`"code":"${refusedWith}"`)) return false;
  // Row level security fails with the same code, behind a right that is there.
  return refusedWith !== "42501" ||
    [401, 403].includes(status) &&
      text.includes('"message":"permission denied for ');
}
