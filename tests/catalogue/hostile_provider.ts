/** Control sequences of terminals, in both codings, and a forged line. */
const HOSTILE =
  "MARK\x1b[2J\x1b]52;c;eA==\x07\u009b31m\u009d0;x\u009c\u202e\x7f\r\nFORGED";

const SUBSCRIPTION = {
  object: "subscription",
  livemode: false,
  created: 1_700_000_000,
  status: `active${HOSTILE}`,
  customer: `cus_${HOSTILE}`,
  items: {
    data: [{
      price: { id: `price_${HOSTILE}` },
      current_period_end: 1_800_000_000,
    }],
  },
};

/** Starts a stand-in for the provider's API with hostile objects or errors. */
export function hostileProvider(
  what: "objects" | "errors",
): { readonly url: string } & AsyncDisposable {
  const server = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen() {} },
    (request) => {
      const headers = { date: new Date().toUTCString() };
      if (what === "errors") {
        const error = { type: "invalid_request_error", message: HOSTILE };
        return Response.json({ error }, { status: 400, headers });
      }
      const { pathname } = new URL(request.url);
      const data = pathname === "/v1/subscriptions"
        ? [
          // Without an account, and with fields that are refused.
          { ...SUBSCRIPTION, id: `sub_${HOSTILE}1`, metadata: {} },
          {
            ...SUBSCRIPTION,
            id: `sub_${HOSTILE}2`,
            metadata: { accountId: `acc_${HOSTILE}` },
          },
        ]
        : pathname === "/v1/events"
        ? [{
          id: `evt_${HOSTILE}`,
          object: "event",
          type: "customer.subscription.updated",
          created: 1_700_000_000,
          livemode: false,
          data: { object: { ...SUBSCRIPTION, id: `sub_${HOSTILE}3` } },
        }]
        : undefined;
      return data === undefined
        ? Response.json({
          error: {
            type: "invalid_request_error",
            code: "resource_missing",
            message: HOSTILE,
          },
        }, { status: 404, headers })
        : Response.json({ object: "list", has_more: false, data }, { headers });
    },
  );
  return {
    url: `http://127.0.0.1:${server.addr.port}`,
    [Symbol.asyncDispose]: () => server.shutdown(),
  };
}
