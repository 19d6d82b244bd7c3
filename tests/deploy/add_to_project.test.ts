/**
 * The receiver in a project of somebody else's: added, deployed beside what is
 * there, and updated.
 *
 * @module
 */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import postgres from "postgres";
import { makeChanges } from "../../scripts/add/make_changes.ts";
import { makePlan } from "../../scripts/add/plan.ts";
import { readProject } from "../../scripts/add/project.ts";
import { readReceiver } from "../../scripts/add/receiver.ts";
import { localKeys } from "../../scripts/common/keys.ts";
import { signatureHeaders } from "../../scripts/common/sign.ts";
import { edgeDenoPath } from "../../scripts/dev/test/downloads.ts";
import { invoiceEvent, subscriptionEvent } from "../../scripts/events/event.ts";
import { createDatabase } from "../../scripts/local_stack/databases.ts";
import { copyRepository } from "../support/copy_repository.ts";
import { post } from "../support/send.ts";
import { setting } from "../support/test_environment.ts";
import { makeAppProject } from "./app_project.ts";
import { SIGNING_SECRET, type Typed } from "./deployer.ts";
import { startEmptyServer } from "./empty_server.ts";
import { createHostedProject } from "./hosted_project.ts";
import { ACCESS_TOKEN } from "./management_api.ts";
import { migrateFrom, migrationNames } from "../support/migrate_part.ts";
import { serveUpload } from "./serve_upload.ts";

const PUSH = "supabase db push --remote --yes";
const DEPLOY = `supabase functions deploy hello --use-api --yes
supabase functions deploy billing-webhook --use-api --yes
supabase functions deploy billing-worker --use-api --yes`;

function assertWorks({ code, said }: Typed): string {
  assertEquals(code, 0, said);
  return said;
}

Deno.test("a project gets the receiver, runs it beside its own functions, and updates it", async (test) => {
  await using server = await startEmptyServer();
  await using hosted = await createHostedProject(server);
  await using app = await makeAppProject(hosted, { localPort: server.port });
  await using clone = await copyRepository();
  const { api } = hosted;
  const sql = postgres(hosted.databaseUrl, { max: 1, onnotice() {} });
  await using _sql = { [Symbol.asyncDispose]: () => sql.end() };

  /** Runs add in the clone, for the app that the user is in. */
  function add(options: string): Promise<Typed> {
    return app.type(
      `cd '${clone.path}' && INIT_CWD='${app.path}' deno task add . ${options}`,
    );
  }
  async function appliedNames(): Promise<string[]> {
    const rows = await sql`
      select name from supabase_migrations.schema_migrations order by version`;
    return rows.map(({ name }) => String(name));
  }
  function hello() {
    const upload = api.uploads.get("hello")!;
    return { metadata: upload.metadata, files: [...upload.files] };
  }
  const theirs = ["notes", "profiles", "tags"];
  const ours = migrationNames().map((name) =>
    name.replace(/^\d+_|\.sql$/g, "")
  );
  const newest = migrationNames().slice(-2);
  const migrations = `${clone.path}/supabase/migrations`;

  let deployed: unknown;
  await test.step("the project before: its own migrations and its function", async () => {
    assertWorks(
      await app.type(
        `supabase login --token ${ACCESS_TOKEN}
supabase link --project-ref <project-ref>
${PUSH}
${DEPLOY.split("\n")[0]}`,
      ),
    );
    assertEquals(await appliedNames(), theirs);
    deployed = hello();
  });

  await test.step("a table of another shape: the push says so, and leaves nothing behind", async () => {
    for (const name of newest) await Deno.remove(`${migrations}/${name}`);
    assertWorks(await add("--yes"));
    await sql`create table public.subscriptions (user_id int)`;
    const { code, said } = await app.type(PUSH);
    assertEquals(code, 1, said);
    assertStringIncludes(
      said,
      "Nothing was created: schema public has table subscriptions already.",
    );
    assertEquals(await appliedNames(), theirs);
    await sql`drop table public.subscriptions`;
  });

  await test.step("added: a plain push, and the function of before is deployed byte for byte", async () => {
    assertWorks(await app.type(`${PUSH}\n${DEPLOY}`));
    assertEquals(await appliedNames(), [...theirs, ...ours.slice(0, -2)]);
    assertEquals(hello(), deployed);
    assertEquals(
      Array.from(api.uploads, ([name, { metadata }]) => [
        name,
        metadata.verify_jwt,
      ]),
      [["hello", false], ["billing-webhook", false], ["billing-worker", false]],
    );
  });

  await test.step("updated, after the project made a migration of its own", async () => {
    for (const name of newest) {
      await Deno.copyFile(
        new URL(`../../supabase/migrations/${name}`, import.meta.url),
        `${migrations}/${name}`,
      );
    }
    await Deno.writeTextFile(
      `${app.path}/supabase/migrations/20990201000000_labels.sql`,
      "create table public.labels (id int primary key);\n",
    );
    assertEquals((await add("--check")).code, 1);
    assertWorks(await add("--yes"));
    assertWorks(await add("--check"));
    assertWorks(await app.type(`${PUSH}\n${DEPLOY}`));
    assertEquals(await appliedNames(), [
      ...theirs,
      ...ours.slice(0, -2),
      "labels",
      ...ours.slice(-2),
    ]);
    const [row] = await sql`select public.billing_version() as number`;
    assertStringIncludes(ours.at(-1)!, `billing_${row?.number}_`);
  });

  await test.step("served as uploaded by the platform's Deno: events are applied, and the function of before works", async () => {
    assertWorks(
      await app.type(
        `supabase secrets set --yes PROVIDER_A_SIGNING_SECRET=${SIGNING_SECRET}`,
      ),
    );
    const denoPath = await edgeDenoPath();
    await using _running = await hosted.run({ denoPath });
    await using ofBefore = await serveUpload(api.uploads.get("hello")!, {
      denoPath,
      env: {},
    });
    const greeting = await fetch(`http://127.0.0.1:${ofBefore.port}/hello`);
    assertEquals(await greeting.text(), "Hello app!");

    const named = { subscription: "sub_app", account: "acc_app" };
    for (
      const event of [
        subscriptionEvent("customer.subscription.created", named),
        invoiceEvent(named),
      ]
    ) {
      const body = JSON.stringify(event);
      const headers = await signatureHeaders({
        scheme: "stripe",
        header: "provider-a-signature",
        secret: SIGNING_SECRET,
        body,
      });
      const answer = await post(`${hosted.url}/functions/v1/billing-webhook`, {
        headers,
        body,
      });
      assertEquals([answer.status, answer.body], [200, "OK"]);
    }
    const rows = await sql`
      select s.account_id from public.subscriptions s
      join public.notifications n on n.subscription_id = s.id`;
    assertEquals(rows.map(({ account_id }) => account_id), ["acc_app"]);

    const { secret } = await localKeys();
    const doctor = await app.type(
      `cd '${clone.path}' && deno task doctor --url ${hosted.url}/functions/v1/billing-webhook`,
      {
        env: {
          SUPABASE_SECRET_KEY: secret,
          SUPABASE_DB_URL: hosted.databaseUrl,
          PROVIDER_A_SIGNING_SECRET: SIGNING_SECRET,
        },
      },
    );
    assertStringIncludes(
      assertWorks(doctor),
      `all ${ours.length} are applied, and 4 that are not in this clone`,
    );
  });
  assert(api.requests.length > 0);
  assertEquals(api.faults, []);
});

Deno.test("migrations with four digits go on with four digits, and are applied in order", async () => {
  const folder = await Deno.makeTempDir({ prefix: "billing-webhook-app-" });
  const port = Number(new URL(setting("TEST_DATABASE_URL")).port);
  const { url } = await createDatabase(port, { name: "four_digits" });
  const sql = postgres(url, { max: 1, onnotice() {} });
  try {
    const supabase = `${folder}/supabase`;
    await Deno.mkdir(`${supabase}/migrations`, { recursive: true });
    await Deno.writeTextFile(`${supabase}/config.toml`, 'project_id = "app"\n');
    await Deno.writeTextFile(
      `${supabase}/migrations/0007_notes.sql`,
      "create table public.notes (id int primary key);\n",
    );
    await migrateFrom(folder, url);
    const receiver = await readReceiver();
    const project = await readProject(folder, receiver);
    const { changes } = makePlan(receiver, project, { clock: Date.now });
    await makeChanges(supabase, changes);
    await migrateFrom(folder, url);
    const rows = await sql`
      select version, name from supabase_migrations.schema_migrations
      order by version`;
    const names = migrationNames().map((name) =>
      name.replace(/^\d+_|\.sql$/g, "")
    );
    assertEquals(
      rows.map(({ version, name }) => [version, name]),
      ["notes", ...names].map((name, i) => [
        String(7 + i).padStart(4, "0"),
        name,
      ]),
    );
  } finally {
    await sql.end();
    await Deno.remove(folder, { recursive: true });
  }
});
