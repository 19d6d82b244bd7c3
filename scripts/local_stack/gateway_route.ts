/** Who answers a request, and under which path it sees it. */
export type Route = {
  to: "rest" | "webhook" | "worker";
  path: string;
};

// A rest that is empty, or begins a segment or a query.
const PREFIXES = [
  { prefix: "/rest/v1", to: "rest", strip: "/rest/v1" },
  {
    prefix: "/functions/v1/billing-webhook",
    to: "webhook",
    strip: "/functions/v1",
  },
  {
    prefix: "/functions/v1/billing-worker",
    to: "worker",
    strip: "/functions/v1",
  },
  { prefix: "/api/billing/webhook", to: "webhook", strip: "" },
] as const;

/**
 * Finds the service behind a request's target. The target is cut, never
 * decoded or normalised, so that the service sees what the client wrote.
 *
 * @param target as on the request line (RFC 9112, section 3.2)
 * @returns nothing where no service has that path
 */
export function routeOf(target: string): Route | undefined {
  const full = target.replace(/^https?:\/\/[^/?]*/i, "");
  for (const { prefix, to, strip } of PREFIXES) {
    if (!full.startsWith(prefix)) continue;
    const rest = full.slice(prefix.length);
    if (rest !== "" && rest[0] !== "/" && rest[0] !== "?") continue;
    const path = full.slice(strip.length);
    return { to, path: path.startsWith("/") ? path : `/${path}` };
  }
  return undefined;
}
