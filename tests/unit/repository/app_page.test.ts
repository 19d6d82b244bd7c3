import { assertEquals } from "@std/assert";
import { loadAppCode } from "../../support/app_page.ts";

const RENEWED = {
  id: "sub_1",
  status: "active",
  provider_status: "active",
  plan_id: "price_pro",
  quantity: null,
  cancel_at: null,
  trial_end: null,
  current_period_end: "2027-06-01T00:00:00+00:00",
};

const LINES: [text: string, changes: Record<string, unknown>][] = [
  ["price_pro, renews on 1 June 2027", {}],
  ["price_pro, 1 seat, renews on 1 June 2027", { quantity: 1 }],
  ["price_pro, 5 seats, cancels on 3 May 2027", {
    quantity: 5,
    cancel_at: "2027-05-03T23:59:59+00:00",
  }],
  ["price_pro, 0 seats, renews on 1 June 2027", { quantity: 0 }],
  ["price_pro, trial until 20 May 2027", {
    provider_status: "trialing",
    trial_end: "2027-05-20T00:00:00+00:00",
  }],
  ["price_pro, cancels on 20 May 2027", {
    provider_status: "trialing",
    cancel_at: "2027-05-20T00:00:00+00:00",
    trial_end: "2027-05-20T00:00:00+00:00",
  }],
  ["price_pro, renews on 1 June 2027", {
    trial_end: "2026-05-20T00:00:00+00:00",
  }],
  ["price_pro, active", { current_period_end: null }],
  ["price_pro, payment failed", { provider_status: "past_due" }],
  ["price_pro, payment failed", { status: "past_due", provider_status: null }],
];

Deno.test("describePlan() of docs/app.md says what a plan is and what comes next", async () => {
  await using code = await loadAppCode();
  for (const [text, changes] of LINES) {
    const plan = { ...RENEWED, ...changes };
    assertEquals(code.describePlan(plan, { timeZone: "UTC" }), text);
  }
});
