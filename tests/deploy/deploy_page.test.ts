/**
 * docs/deploy.md: its commands run here in order, with an unused CLI, against a
 * hosted project on this machine, for a project of the receiver's own.
 * add_to_project.test.ts runs them for one that has an app already.
 *
 * @module
 */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import postgres from "postgres";
import { databaseUrls } from "../../scripts/local_stack/databases.ts";
import { localKeys } from "../../scripts/common/keys.ts";
import { edgeDenoPath } from "../../scripts/dev/downloads.ts";
import { signatureHeaders } from "../../scripts/common/sign.ts";
import { readPage } from "../support/doc_commands.ts";
import { subscriptionEvent } from "../../scripts/events/subscription_event.ts";
import { fencedBlocks } from "../support/fenced_blocks.ts";
import { post } from "../support/send.ts";
import {
  SIGNING_SECRET,
  startDeployer,
  type Terminal,
  type Typed,
} from "./deployer.ts";
import { startEmptyServer } from "./empty_server.ts";
import { createHostedProject, type HostedProject } from "./hosted_project.ts";
import { ACCESS_TOKEN } from "./management_api.ts";
import { migrationVersions } from "../support/migrate_part.ts";

const PAGE = "docs/deploy.md";
const SECRETS = {
  PROVIDER_A_SIGNATURE_HEADER: "stripe-signature",
  PROVIDER_A_SIGNING_SECRET: SIGNING_SECRET,
};

/** What a person answers when the CLI asks. */
const YES = { SUPABASE_YES: "1" };

const IN_AN_APP = "add_to_project.test.ts, with most of the other blocks";
/** Blocks that are not typed here: how they begin, and why not. */
const ELSEWHERE: Record<string, string> = {
  "deno task add ../my-app": IN_AN_APP,
  "cd ../my-app": IN_AN_APP,
  "export SUPABASE_URL=https://<project-ref>.supabase.co\nread -rs STRIPE":
    "tests/stripe_sync, with a stand-in for Stripe",
  "deno task reconcile": "tests/stripe_sync, with a stand-in for Stripe",
  "cp supabase/functions/.env.example": "tests/docs/commands.test.ts",
  "deno task trigger": "tests/docs/commands.test.ts",
};

const blocks = readPage(PAGE).split(/^(?=## )/m).flatMap((section) =>
  fencedBlocks(section, { page: section.split("\n")[0]!, language: "sh" })
);
const typed = new Set<string>();

/** A block of commands: the first one below a heading, or a later one. */
function blockBelow(heading: string, number = 1): string {
  const below = blocks.filter(({ place }) => place.startsWith(heading));
  const block = below[number - 1];
  assert(block, `${PAGE} has no block ${number} below ${heading}`);
  typed.add(block.place);
  return block.text;
}

function assertWorks({ code, said }: Typed): void {
  assertEquals(code, 0, said);
}

/** The migrations that a database has had, or nothing but what it began with. */
async function migrationsIn(databaseUrl: string): Promise<string[]> {
  const sql = postgres(databaseUrl, { max: 1, onnotice() {} });
  try {
    const [found] = await sql`
      select to_regclass('supabase_migrations.schema_migrations') as history`;
    if (!found?.history) return [];
    const rows = await sql`
      select version from supabase_migrations.schema_migrations order by 1`;
    return rows.map(({ version }) => version);
  } finally {
    await sql.end();
  }
}

/** Steps 3 and 5, in the project's folder. */
async function deployAndSetSecrets(
  folder: Terminal,
  { api }: HostedProject,
): Promise<void> {
  assertWorks(await folder.type(blockBelow("## 3."), { env: YES }));
  assertEquals(
    Array.from(api.uploads, ([name, { metadata }]) => [
      name,
      metadata.verify_jwt,
    ]),
    [["billing-webhook", false], ["billing-worker", false]],
  );
  assertWorks(await folder.type(blockBelow("## 5."), { env: YES }));
  assertEquals(Object.fromEntries(api.secrets), SECRETS);
}

/** Steps 7 and 8, in the clone: the doctor finds nothing, an event is applied. */
async function lookAndReceive(
  clone: Terminal,
  project: HostedProject,
): Promise<void> {
  const denoPath = await edgeDenoPath();
  await using _running = await project.run({ denoPath });
  const { secret, publishable } = await localKeys();
  const pasted = [secret, project.databaseUrl, SIGNING_SECRET, ""].join("\n");
  assertWorks(await clone.type(blockBelow("## 7."), { input: pasted }));

  const event = subscriptionEvent("customer.subscription.created", {
    subscription: "sub_deployed",
    account: "acc_deployed",
  });
  const body = JSON.stringify(event);
  const headers = await signatureHeaders({
    scheme: "stripe",
    header: SECRETS.PROVIDER_A_SIGNATURE_HEADER,
    secret: SECRETS.PROVIDER_A_SIGNING_SECRET,
    body,
  });
  const answer = await post(
    `${project.url}/functions/v1/billing-webhook?forceFunctionRegion=eu-central-1`,
    { headers, body },
  );
  assertEquals([answer.status, answer.body], [200, "OK"]);
  const [subscriptions, health] = await firstEventQueries(project.databaseUrl);
  assertEquals(subscriptions?.[0]?.["id"], "sub_deployed");
  assertEquals(subscriptions?.[0]?.["account_id"], "acc_deployed");
  assertEquals(health?.[0]?.["open_failures"], "0");

  const app = await post(`${project.url}/functions/v1/billing-worker`, {
    headers: { apikey: publishable },
  });
  assertEquals(app.status, 401);
}

Deno.test("docs/deploy.md: its commands bring the receiver to a project of its own, and to no other database", async (test) => {
  await using server = await startEmptyServer();
  await using project = await createHostedProject(server);
  await using person = await startDeployer(project, { localPort: server.port });
  const { api } = project;
  const local = databaseUrls(server.port).url;
  const env = YES;

  await test.step("1. A project of its own", async () => {
    const block = blockBelow("## 1.", 3);
    assertWorks(await person.type(block, { input: ACCESS_TOKEN }));
  });

  await test.step("2. The database: nothing without a yes", async () => {
    const { code, said } = await person.type(blockBelow("## 2."));
    assertStringIncludes(said, "Confirmation required");
    assertEquals(code, 1);
    assertEquals(await migrationsIn(project.databaseUrl), []);
  });

  await test.step("2. The database: the hosted one, not the local one", async () => {
    assertWorks(await person.type(blockBelow("## 2."), { env }));
    assertEquals(await migrationsIn(local), [], "the local database");
    assertEquals(await migrationsIn(project.databaseUrl), migrationVersions());
  });

  await test.step("3. The functions, 5. Secrets", async () => {
    await deployAndSetSecrets(person, project);
  });

  await test.step("7. The doctor, 8. The first event", async () => {
    await lookAndReceive(person, project);
  });

  await test.step("8. Two secrets", async () => {
    assertWorks(await person.type(blockBelow("## 8.", 2), { env }));
    assertEquals(
      api.secrets.get("PROVIDER_A_SIGNING_SECRET"),
      `whsec_live_0123456789,${SIGNING_SECRET}`,
    );
  });

  await test.step("8. The live secret alone, and the mode", async () => {
    assertWorks(await person.type(blockBelow("## 8.", 3), { env }));
    assertEquals(
      api.secrets.get("PROVIDER_A_SIGNING_SECRET"),
      "whsec_live_0123456789",
    );
    assertEquals(api.secrets.get("PROVIDER_A_MODE"), "live");
  });

  await test.step("In CI: by token and password, without a terminal", async () => {
    const before = api.requests.length;
    await using machine = await startDeployer(project, {
      localPort: server.port,
    });
    assertWorks(
      await machine.type(blockBelow("## In CI"), {
        env: {
          SUPABASE_ACCESS_TOKEN: ACCESS_TOKEN,
          SUPABASE_DB_PASSWORD: project.databasePassword,
        },
      }),
    );
    const asked = api.requests.slice(before).join("\n");
    assert(!asked.includes("login-role"), asked);
    assertEquals(asked.match(/functions\/deploy/g)?.length, 2, asked);
    assertEquals(await migrationsIn(local), [], "the local database");
  });

  assertEquals(api.faults, []);
});

Deno.test("docs/deploy.md: every block is run here, or listed with the place where it is run", () => {
  const missing = blocks.filter(({ place, text }) =>
    !typed.has(place) &&
    !Object.keys(ELSEWHERE).some((start) => text.startsWith(start))
  );
  assertEquals(missing.map(({ text }) => text), []);
});

/** What the page's two queries answer, of the step "The first event". */
async function firstEventQueries(
  databaseUrl: string,
): Promise<postgres.Row[][]> {
  const [block, ...more] = fencedBlocks(readPage(PAGE), {
    page: PAGE,
    language: "sql",
  }).filter(({ text }) => text.includes("billing.health"));
  assert(block && more.length === 0);
  const sql = postgres(databaseUrl, { max: 1 });
  try {
    const queries = block.text.trim().split("\n");
    return await Promise.all(queries.map((query) => sql.unsafe(query)));
  } finally {
    await sql.end();
  }
}
