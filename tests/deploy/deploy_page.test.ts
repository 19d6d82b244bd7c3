/**
 * docs/deploy.md: its commands run here in order, with an unused CLI, against a
 * hosted project on this machine, for a project of the receiver's own. What is
 * uploaded is served by the platform's Deno, from a folder with nothing else.
 * add_to_project.test.ts runs them for one that has an app already.
 *
 * @module
 */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { localKeys } from "../../scripts/common/keys.ts";
import { signatureHeaders } from "../../scripts/common/sign.ts";
import { subscriptionEvent } from "../../scripts/events/subscription_event.ts";
import {
  LOCAL_PASSWORD,
  withDatabase,
} from "../../scripts/local_stack/databases.ts";
import { copyRepository } from "../support/copy_repository.ts";
import { readBlocks } from "../support/doc_commands.ts";
import { migrationVersions } from "../support/migrate_part.ts";
import { post } from "../support/send.ts";
import { setting } from "../support/test_environment.ts";
import {
  assertWorks,
  createHostedProject,
  openDeployer,
  setLocalPort,
  SIGNING_SECRET,
} from "./hosted_project.ts";
import { ACCESS_TOKEN } from "./management_api.ts";

/** What a person answers when the CLI asks. */
const env = { SUPABASE_YES: "1" };
/** Typed by add_to_project.test.ts, tests/stripe_sync and tests/docs. */
const ELSEWHERE =
  /^(deno task (add|reconcile|trigger)|cd |cp |export SUPABASE_URL=\S+\nread -rs STRIPE|select billing.schedule)/;
const port = Number(new URL(setting("TEST_DATABASE_URL")).port);
const { block, left } = readBlocks("docs/deploy.md");

Deno.test("docs/deploy.md: its commands bring the receiver to a project of its own", async (test) => {
  await using opened = new AsyncDisposableStack();
  const project = opened.use(await createHostedProject({ port, name: "own" }));
  const { path } = opened.use(await copyRepository());
  // The local database has all migrations: pushed there, nothing would happen.
  await setLocalPort(path, port);
  const { type } = opened.use(await openDeployer(project, path));
  const { api, databaseUrl } = project;

  await test.step("1. A project of its own, 2. The database: nothing without a yes", async () => {
    assertWorks(await type(block("supabase login"), { input: ACCESS_TOKEN }));
    const push = block("supabase db push");
    const { code, said } = await type(push);
    assertStringIncludes(said, "Confirmation required");
    assertEquals(code, 1);
    await withDatabase(databaseUrl, async (sql) => {
      const [is] = await sql`select to_regnamespace('billing') as there`;
      assertEquals(is?.there, null);
      assertWorks(await type(push, { env }));
      const rows = await sql`
        select version from supabase_migrations.schema_migrations order by 1`;
      assertEquals(rows.map(({ version }) => version), migrationVersions());
    });
  });

  await test.step("3. The functions: what they need, and nothing besides. 5. Secrets", async () => {
    assertWorks(await type(block("supabase functions deploy"), { env }));
    const names = ["billing-webhook", "billing-worker"];
    assertEquals([...api.uploads.keys()], names);
    for (const [name, { metadata, files }] of api.uploads) {
      assertEquals(metadata.verify_jwt, false);
      const own = new RegExp(
        `^supabase/functions/(${name}/(deno\\.(json|lock)|.+\\.ts)|_shared/billing/.+\\.ts)$`,
      );
      assertEquals([...files.keys()].filter((path) => !own.test(path)), []);
    }
    const set = block("supabase secrets set PROVIDER_A_SIGNATURE_HEADER");
    assertWorks(await type(set, { env }));
    assertEquals([...api.secrets], [
      ["PROVIDER_A_SIGNATURE_HEADER", "stripe-signature"],
      ["PROVIDER_A_SIGNING_SECRET", SIGNING_SECRET],
    ]);
  });

  await test.step("7. The doctor, 8. The first event", async () => {
    await using _running = await project.run();
    const { secret, publishable } = await localKeys();
    const input = [secret, databaseUrl, SIGNING_SECRET, ""].join("\n");
    const doctor = block(
      "export SUPABASE_URL=https://<project-ref>.supabase.co\nread -rs SUPABASE_SECRET",
    );
    assertWorks(await type(doctor, { input }));

    const body = JSON.stringify(
      subscriptionEvent("customer.subscription.created", {
        account: "acc_deployed",
      }),
    );
    const headers = await signatureHeaders({
      scheme: "stripe",
      header: "stripe-signature",
      secret: SIGNING_SECRET,
      body,
    });
    const functions = `${project.url}/functions/v1`;
    const region = "forceFunctionRegion=eu-central-1";
    const url = `${functions}/billing-webhook?${region}`;
    const answer = await post(url, { headers, body });
    assertEquals([answer.status, answer.body], [200, "OK"]);
    await withDatabase(databaseUrl, async (sql) => {
      const queries = block("select id, account_id").trim().split("\n");
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
    const live = "whsec_live_0123456789";
    for (
      const [end, secret, mode] of [
        [",", `${live},${SIGNING_SECRET}`, undefined],
        [" ", live, "live"],
      ] as const
    ) {
      const set =
        `supabase secrets set PROVIDER_A_SIGNING_SECRET=whsec_<live>${end}`;
      assertWorks(await type(block(set), { env }));
      assertEquals(api.secrets.get("PROVIDER_A_SIGNING_SECRET"), secret);
      assertEquals(api.secrets.get("PROVIDER_A_MODE"), mode);
    }
  });

  await test.step("In CI: by token and password, without a terminal", async () => {
    const before = api.requests.length;
    await using machine = await openDeployer(project, path);
    const env = {
      SUPABASE_ACCESS_TOKEN: ACCESS_TOKEN,
      SUPABASE_DB_PASSWORD: LOCAL_PASSWORD,
    };
    assertWorks(await machine.type(block("supabase link"), { env }));
    const asked = api.requests.slice(before).join("\n");
    assert(!asked.includes("login-role"), asked);
    assertEquals(asked.match(/functions\/deploy/g)?.length, 2, asked);
  });
  assertEquals(api.faults, []);
  assertEquals(left().filter((text) => !ELSEWHERE.test(text)), []);
});
