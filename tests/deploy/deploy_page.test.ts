/**
 * docs/deploy.md: its commands run here in order, with an unused CLI, against a
 * hosted project on this machine, for a project of the receiver's own. What is
 * uploaded is served by the platform's Deno, from a folder with nothing else.
 * add_to_project.test.ts runs them for one that has an app already.
 *
 * @module
 */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { localKeys } from "../../scripts/local_stack/keys.ts";
import { signatureHeaders } from "../../scripts/common/sign.ts";
import { edgeDenoPath } from "../../scripts/dev/downloads.ts";
import { subscriptionEvent } from "../../scripts/events/subscription_event.ts";
import { withDatabase } from "../../scripts/local_stack/databases.ts";
import { fencedBlocks, readPage } from "../support/docs.ts";
import { migrationNames } from "../support/databases.ts";
import { post } from "../support/send.ts";
import { setting } from "../support/test_environment.ts";
import { SIGNING_SECRET, startDeployer, type Typed } from "./deployer.ts";
import { createHostedProject } from "./hosted_project.ts";
import { ACCESS_TOKEN } from "./management_api.ts";

const PAGE = "docs/deploy.md";
const SECRETS = {
  PROVIDER_A_SIGNATURE_HEADER: "stripe-signature",
  PROVIDER_A_SIGNING_SECRET: SIGNING_SECRET,
};
/** What a person answers when the CLI asks. */
const YES = { SUPABASE_YES: "1" };
/** Typed by add_to_project.test.ts, tests/stripe_sync and tests/docs. */
const ELSEWHERE =
  /^(deno task (add|reconcile|trigger)|cd |cp |export SUPABASE_URL=\S+\nread -rs STRIPE)/;

const port = Number(new URL(setting("TEST_DATABASE_URL")).port);
const blocks = readPage(PAGE).split(/^(?=## )/m).flatMap((section) =>
  ["sh", "sql"].flatMap((language) =>
    fencedBlocks(section, { page: section.split("\n")[0]!, language })
      .map((block) => ({ ...block, language }))
  )
);
const typed = new Set<string>();

/** A block: the first of its language below a heading, or a later one. */
function blockBelow(heading: string, number = 1, language = "sh"): string {
  const block =
    blocks.filter((it) =>
      it.place.startsWith(heading) && it.language === language
    )[number - 1];
  assert(block, `${PAGE} has no block ${number} below ${heading}`);
  typed.add(block.text);
  return block.text;
}

function assertWorks({ code, said }: Typed): void {
  assertEquals(code, 0, said);
}

Deno.test("docs/deploy.md: its commands bring the receiver to a project of its own", async (test) => {
  await using project = await createHostedProject({ port });
  // The local database has all migrations: pushed there, nothing would happen.
  await using person = await startDeployer(project, { localPort: port });
  const { api, databaseUrl } = project;
  const migrations = () =>
    withDatabase(databaseUrl, async (sql) => {
      const [found] = await sql`
        select to_regclass('supabase_migrations.schema_migrations') as list`;
      if (!found?.list) return [];
      const rows = await sql`
        select version from supabase_migrations.schema_migrations order by 1`;
      return rows.map(({ version }) => version);
    });

  await test.step("1. A project of its own, 2. The database: nothing without a yes", async () => {
    const link = blockBelow("## 1.", 3);
    assertWorks(await person.type(link, { input: ACCESS_TOKEN }));
    const { code, said } = await person.type(blockBelow("## 2."));
    assertStringIncludes(said, "Confirmation required");
    assertEquals([code, await migrations()], [1, []]);
    assertWorks(await person.type(blockBelow("## 2."), { env: YES }));
    const versions = migrationNames().map((name) => name.split("_")[0]);
    assertEquals(await migrations(), versions);
  });

  await test.step("3. The functions: what they need, and nothing besides. 5. Secrets", async () => {
    assertWorks(await person.type(blockBelow("## 3."), { env: YES }));
    assertEquals([...api.uploads.keys()], [
      "billing-webhook",
      "billing-worker",
    ]);
    for (const [name, { metadata, files }] of api.uploads) {
      assertEquals(metadata.verify_jwt, false);
      const own = new RegExp(
        `^supabase/functions/(${name}/(deno\\.(json|lock)|.+\\.ts)|_shared/billing/.+\\.ts)$`,
      );
      assertEquals([...files.keys()].filter((path) => !own.test(path)), []);
    }
    assertWorks(await person.type(blockBelow("## 5."), { env: YES }));
    assertEquals(Object.fromEntries(api.secrets), SECRETS);
  });

  await test.step("7. The doctor, 8. The first event", async () => {
    await using _running = await project.run({
      denoPath: await edgeDenoPath(),
    });
    const { secret, publishable } = await localKeys();
    const input = [secret, databaseUrl, SIGNING_SECRET, ""].join("\n");
    assertWorks(await person.type(blockBelow("## 7."), { input }));

    const body = JSON.stringify(
      subscriptionEvent("customer.subscription.created", {
        subscription: "sub_deployed",
        account: "acc_deployed",
      }),
    );
    const headers = await signatureHeaders({
      scheme: "stripe",
      header: SECRETS.PROVIDER_A_SIGNATURE_HEADER,
      secret: SECRETS.PROVIDER_A_SIGNING_SECRET,
      body,
    });
    const functions = `${project.url}/functions/v1`;
    const region = "forceFunctionRegion=eu-central-1";
    const url = `${functions}/billing-webhook?${region}`;
    const answer = await post(url, { headers, body });
    assertEquals([answer.status, answer.body], [200, "OK"]);
    await withDatabase(databaseUrl, async (sql) => {
      const queries = blockBelow("## 8.", 1, "sql").trim().split("\n");
      const [row] = await sql.unsafe(queries[0]!);
      assertEquals(row?.["account_id"], "acc_deployed");
      const [health] = await sql.unsafe(queries[1]!);
      assertEquals(health?.["open_failures"], "0");
    });
    const app = await post(`${functions}/billing-worker`, {
      headers: { apikey: publishable },
    });
    assertEquals(app.status, 401);
  });

  await test.step("8. Two secrets; the live one alone, and the mode", async () => {
    for (
      const [number, secret, mode] of [
        [2, `whsec_live_0123456789,${SIGNING_SECRET}`, undefined],
        [3, "whsec_live_0123456789", "live"],
      ] as const
    ) {
      assertWorks(await person.type(blockBelow("## 8.", number), { env: YES }));
      assertEquals(api.secrets.get("PROVIDER_A_SIGNING_SECRET"), secret);
      assertEquals(api.secrets.get("PROVIDER_A_MODE"), mode);
    }
  });

  await test.step("In CI: by token and password, without a terminal", async () => {
    const before = api.requests.length;
    await using machine = await startDeployer(project, { localPort: port });
    const env = {
      SUPABASE_ACCESS_TOKEN: ACCESS_TOKEN,
      SUPABASE_DB_PASSWORD: project.databasePassword,
    };
    assertWorks(await machine.type(blockBelow("## In CI"), { env }));
    const asked = api.requests.slice(before).join("\n");
    assert(!asked.includes("login-role"), asked);
    assertEquals(asked.match(/functions\/deploy/g)?.length, 2, asked);
  });
  assertEquals(api.faults, []);
});

Deno.test("docs/deploy.md: every block of commands is typed here or elsewhere", () => {
  const missing = blocks.filter(({ text, language }) =>
    language === "sh" && !typed.has(text) && !ELSEWHERE.test(text)
  );
  assertEquals(missing.map(({ text }) => text), []);
});
