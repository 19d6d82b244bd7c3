import { assert, assertEquals } from "@std/assert";
import { ERRORS } from "../../supabase/functions/_shared/billing/errors.ts";
import { createLiveView } from "../../scripts/live_view/live_view.ts";

const DELIVERY = {
  level: "info",
  message: "events applied",
  outcomes: { applied: 1 },
  type: "customer.subscription.created",
  subscription_id: "sub_local_a",
  event_id: "evt_1SBiOdBe0ycHroRBN3pieuMu",
  duration_ms: 4.2,
};
const FAILED = { ...DELIVERY, outcomes: {}, status: 500, code: "x" };
const CELLS = "subscription.created   sub_local_a  evt_1…pieuMu <dim>   4 ms";
const LINK = `https://${"x".repeat(60)}`;

function shown(line: object | string, source = "webhook", columns = 80) {
  const lines: string[] = [];
  const view = createLiveView({
    print: (line) => lines.push(line),
    columns: () => columns,
    paint: (style, text) => `<${style}>${text}`,
    clock: () => new Date(2026, 10, 22, 9, 5, 7).getTime(),
  });
  view(typeof line === "string" ? line : JSON.stringify(line), source);
  return lines.map((line) => line.replace("<dim>09:05:07 ", ""));
}

Deno.test("a delivery has one line, in the color of its outcome", () => {
  const styles = { applied: "green", duplicate: "yellow", ignored: "dim" };
  for (const [outcome, style] of Object.entries(styles)) {
    const outcomes = { failed: 0, [outcome]: 1 };
    assertEquals(shown({ ...DELIVERY, outcomes }), [
      `<${style}>200 <${style}>${outcome.padEnd(9)} ${CELLS}`,
    ]);
  }

  assertEquals(shown(FAILED)[0], `<red>500 <red>failed    ${CELLS}`);

  // Anyone may send what is not signed: the doctor does, too.
  const [refused] = shown({ ...FAILED, status: 401 });
  assertEquals(refused, `<yellow>401 <yellow>refused   ${CELLS}`);

  const code = "event_invalid";
  const [acknowledged, below] = shown({
    ...DELIVERY,
    outcomes: { acknowledged: 1 },
    code,
    error: "why",
  });
  assertEquals(acknowledged?.slice(0, 30), "<red>200 <red>acknowledged sub");
  assertEquals(acknowledged?.length, 79 + "<red><red><dim>".length - 9);
  assertEquals(below, `    <yellow>${code}: why`);

  const [checkout] = shown({ ...DELIVERY, type: "checkout.session.completed" });
  assert(checkout?.includes(" session.completed "), checkout);
});

Deno.test("what is below a delivery fits its code and provider", () => {
  const below = (code: string, error: string, provider = "a") =>
    shown({ ...FAILED, code, error, provider }).slice(1)
      .map((line) => line.replace("    <yellow>", "")).join(" ")
      .replace(`${code}: `, "");
  const unverified = "Cannot verify deliveries of provider a";
  const own =
    "Set PROVIDER_B_SIGNING_SECRET to the secret on the provider's endpoint page.";
  const raised = "billing.on_x raised P0042";
  const read =
    `${raised}: Correct your app's handler or trigger, or repair the payload, and retry.`;
  for (
    const [code, error, text, provider] of [
      ["deployment_fault", "Database call failed: 42501: x", "42501: x"],
      ["provider_misconfigured", `${unverified}: no x`, "no x"],
      ["handler_missing", "billing.on_x is not", "billing.on_x is not"],
      ["apply_failed", `${raised}: see its row`, read],
      ["signature_mismatch", "", own, "b"],
    ] as const
  ) assertEquals(below(code, error, provider), text);

  const message = "long ".repeat(20).trim();
  const [, ...lines] = shown({ ...DELIVERY, level: "warn", message });
  const text = lines.join(" ").replaceAll("    <yellow>", "");
  assertEquals([lines.length, text], [2, message]);
});

Deno.test("no line is as wide as the terminal, whatever the log has", () => {
  const text = "\u001b[2J\u202e漢字 ".repeat(20);
  const long = {
    type: text,
    subscription_id: text,
    event_id: text,
    error: "\u001b ".repeat(99),
  };
  for (const columns of [80, 81, 200]) {
    for (const code of Object.keys(ERRORS)) {
      const lines = shown({ ...FAILED, ...long, code }, "webhook", columns)
        .map((line) => line.replaceAll(/<[a-z]+>/g, ""));
      lines[0] = `09:05:07 ${lines[0]}`;
      for (const line of lines) assert(line.length < columns, line);
      assert(!/[^ -~…]/.test(lines.join(" ")));
    }
  }

  const [wide = ""] = shown(DELIVERY, "webhook", 140);
  assert(/ sub_local_a +evt_1SBiOdBe0ycHroRBN3pieuMu /.test(wide), wide);
  assertEquals(shown("{\u001b", "worker", 79), ["[worker] {\\u001b"]);
});

Deno.test("other lines say whose they are", () => {
  for (
    const [source, line, ...expected] of [
      ["worker", {
        level: "info",
        message: "retried",
        counts: { claimed: 3, applied: 2, failed: 0 },
      }, "<cyan>worker    retried: 2 applied"],
      [
        "worker",
        { level: "warn", message: "not delivered", error: "500" },
        "<red>worker    not delivered: 500",
      ],
      ["webhook", "error: x", "<cyan>webhook   error: x"],
      [
        "webhook",
        { lines: 46, outcomes: { applied: 40, stale: 6 } },
        "<cyan>...       and 46 more: 40 applied, 6 stale",
      ],
      ["notification", "alert: x: 1 new", "<red>alert     x: 1 new"],
      // A URL stays whole, to be copied.
      ["notification", `verified: pay ${LINK}`, "<cyan>notified  pay", LINK],
    ] as const
  ) {
    const lines = shown(line, source).map((one) => one.replace("    ", ""));
    assertEquals<unknown>(lines, expected);
  }
});
