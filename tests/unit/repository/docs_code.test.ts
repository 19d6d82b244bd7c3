/**
 * The TypeScript in the docs type-checks when it is copied, and says what the
 * page says that it does.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { join } from "node:path";
import { createCommand } from "../../../scripts/common/create_command.ts";
import { REPOSITORY } from "../../../scripts/common/how_started.ts";
import { loadAppCode } from "../../support/app_page.ts";
import { writeDocCode } from "../../support/docs.ts";

Deno.test("the TypeScript in the pages type-checks", async () => {
  const pages = [...Deno.readDirSync(join(REPOSITORY, "docs"))]
    .map(({ name }) => name)
    .filter((name) => name.endsWith(".md"));
  await using opened = new AsyncDisposableStack();
  const files: string[] = [];
  for (const page of pages) {
    files.push(...opened.use(await writeDocCode(page)).files);
  }
  assert(files.length >= 3, `${files.length} blocks`);
  const config = join(REPOSITORY, "deno.json");
  const { success, stderr } = await createCommand(Deno.execPath(), {
    args: ["check", "--quiet", "--config", config, "--frozen", ...files],
    env: { NO_COLOR: "1" },
  }).output();
  assertEquals(
    { success, said: new TextDecoder().decode(stderr) },
    { success: true, said: "" },
  );
});

const PLAN = {
  status: "active",
  provider_status: "active",
  plan_id: "price_pro",
  quantity: null,
  cancel_at: null,
  trial_end: null,
  current_period_end: "2027-06-01T00:00:00+00:00",
};
const MAY_3 = "2027-05-03T23:59:59+00:00";

Deno.test("describePlan() of docs/app.md says what a plan is and what comes next", async () => {
  await using code = await loadAppCode();
  for (
    const [text, changes] of [
      ["renews on 1 June 2027", { trial_end: "2026-05-20T00:00:00+00:00" }],
      ["1 seat, renews on 1 June 2027", { quantity: 1 }],
      ["5 seats, cancels on 3 May 2027", { quantity: 5, cancel_at: MAY_3 }],
      ["trial until 3 May 2027", {
        provider_status: "trialing",
        trial_end: MAY_3,
      }],
      ["active", { current_period_end: null }],
      ["payment failed", { status: "past_due", provider_status: null }],
    ] as const
  ) {
    const said = code.describePlan({ ...PLAN, ...changes }, {
      timeZone: "UTC",
    });
    assertEquals(said, `price_pro, ${text}`);
  }
});
