/**
 * What `add` does to a project that has an earlier version of the receiver.
 *
 * @module
 */
import {
  assert,
  assertEquals,
  assertRejects,
  assertStringIncludes,
} from "@std/assert";
import { isUpToDate } from "../../../scripts/add/plan.ts";
import { planLines, todoLines } from "../../../scripts/add/show_plan.ts";
import {
  inState,
  makeProject,
  olderVersion,
  receiver,
  THEIRS,
  type Tree,
} from "../../support/project_folder.ts";

const WEBHOOK = "functions/billing-webhook/index.ts";
const WORKER = "functions/billing-worker/index.ts";
const OLD = "functions/billing-worker/old/left_out.ts";
const SNIPPET = "snippets/4_retry.sql";
const ENV = "functions/.env.example";

/** Two migrations back, with other texts, one file more and one less. */
const before = olderVersion({
  version: "0.1.0",
  migrationsLess: 2,
  texts: {
    [WEBHOOK]: "// older\n",
    [WORKER]: "// older\n",
    [OLD]: "// no longer needed\n",
    [SNIPPET]: null,
    [ENV]: "#OLDER=1\n",
  },
});

/** A tree without the versions of migrations, which tell when they came. */
function withoutVersions(tree: Tree): Tree {
  return Object.fromEntries(
    Object.entries(tree).map(([path, text]) => [
      path.replace(/\d{14}_billing_/, ""),
      text.replaceAll(/"\d{14}_billing_/g, '"'),
    ]).sort(([a = ""], [b = ""]) => a < b ? -1 : 1),
  );
}

Deno.test("an update ends as a straight add does", async () => {
  await using straight = await makeProject();
  await straight.add();
  await using project = await makeProject();
  await project.add(before);
  const older = await project.tree();
  const plan = await project.add();
  assertEquals(inState(plan, "updated"), [ENV, WEBHOOK, WORKER]);
  assertEquals(inState(plan, "new"), [SNIPPET]);
  assertEquals(inState(plan, "removed"), [OLD]);
  assertEquals(
    [...plan.migrations.added.values()],
    receiver.migrations.slice(-2),
  );
  const after = await project.tree();
  assertEquals(withoutVersions(after), withoutVersions(await straight.tree()));
  assert(isUpToDate(await project.add()));

  // What was applied keeps its name, and what is new sorts behind all of it.
  const had = Object.keys(older).filter((it) => it.includes("/migrations/"));
  const has = Object.keys(after).filter((it) => it.includes("/migrations/"));
  assertEquals(has.slice(0, had.length), had);
});

Deno.test("new migrations go behind those that the project made since", async () => {
  await using project = await makeProject();
  await project.add(before);
  const theirs = "20300101000000_theirs.sql";
  await project.write(`supabase/migrations/${theirs}`, "select 2;");
  const { migrations } = await project.add();
  assertEquals(
    [...migrations.added.keys()].map((name) => name.slice(0, 14)),
    ["20300101000001", "20300101000002"],
  );
});

Deno.test("a project that skipped versions ends as one that took each", async () => {
  await using each = await makeProject();
  await using skipping = await makeProject();
  for (const migrationsLess of [5, 3, 1]) {
    const version = olderVersion({
      version: `0.${8 - migrationsLess}.0`,
      migrationsLess,
      texts: { [WEBHOOK]: `// ${migrationsLess}\n` },
    });
    await each.add(version);
    if (migrationsLess === 5) await skipping.add(version);
  }
  await each.add();
  await skipping.add();
  assertEquals(
    withoutVersions(await skipping.tree()),
    withoutVersions(await each.tree()),
  );
});

Deno.test("an update that was interrupted anywhere ends the same when it is run again", async () => {
  await using straight = await makeProject();
  await straight.add(before);
  const { changes } = await straight.add();
  const wanted = await straight.tree();
  for (let stopAfter = 0; stopAfter < changes.length; stopAfter++) {
    await using project = await makeProject();
    await project.add(before);
    await project.add(receiver, { stopAfter });
    await project.add();
    assertEquals(await project.tree(), wanted, `after ${stopAfter} changes`);
  }
});

Deno.test("a file that the user changed is kept and shown, and all else is updated", async () => {
  await using straight = await makeProject();
  await straight.add(before);
  await straight.add();
  await using project = await makeProject();
  await project.add(before);
  await project.write(`supabase/${WEBHOOK}`, "// older\n// mine\n");
  const plan = await project.add();
  assertEquals(inState(plan, "conflict"), [WEBHOOK]);
  const after = await project.tree();
  const wanted = await straight.tree();
  assertEquals(after, {
    ...wanted,
    [`supabase/${WEBHOOK}`]: "// older\n// mine\n",
    "supabase/billing.json": after["supabase/billing.json"]!,
  });
  const shown = planLines(plan).join("\n");
  assertStringIncludes(shown, `--- yours/${WEBHOOK}`);
  assertStringIncludes(shown, "    -// mine\n");
  assertStringIncludes(
    todoLines(plan, "deno task add ../my-app").join("\n"),
    `deno task add ../my-app --keep ${WEBHOOK}`,
  );

  const again = await project.add();
  assertEquals(inState(again, "conflict"), [WEBHOOK], "it is said again");
  assertEquals(again.changes, []);
  assert(!isUpToDate(again));
});

Deno.test("--keep ends a conflict, until the file changes again", async () => {
  await using project = await makeProject();
  await project.add(before);
  await project.write(`supabase/${WEBHOOK}`, "// merged\n");
  await project.add(receiver, { decisions: { keep: WEBHOOK } });
  assertEquals(await project.read(`supabase/${WEBHOOK}`), "// merged\n");
  const plan = await project.add();
  assertEquals(inState(plan, "changed"), [WEBHOOK]);
  assert(isUpToDate(plan));
  assertStringIncludes(planLines(plan).join("\n"), "    -// merged\n");

  const files = new Map(receiver.files).set(WEBHOOK, "// newer\n");
  const newer = { ...receiver, version: "9.0.0", files };
  assertEquals(inState(await project.plan(newer), "conflict"), [WEBHOOK]);
});

Deno.test("--force ends a conflict for one file only", async () => {
  await using project = await makeProject();
  await project.add(before);
  await project.write(`supabase/${WEBHOOK}`, "// mine\n");
  await project.write(`supabase/${WORKER}`, "// mine too\n");
  const plan = await project.add(receiver, { decisions: { force: WEBHOOK } });
  assertEquals(inState(plan, "conflict"), [WORKER]);
  assertEquals(
    await project.read(`supabase/${WEBHOOK}`),
    receiver.files.get(WEBHOOK),
  );
  assertEquals(await project.read(`supabase/${WORKER}`), "// mine too\n");
});

Deno.test("a file that this version does not have stays if the user changed it", async () => {
  await using project = await makeProject();
  await project.add(before);
  await project.write(`supabase/${OLD}`, "// mine\n");
  assertEquals(inState(await project.add(), "released"), [OLD]);
  assertEquals(await project.read(`supabase/${OLD}`), "// mine\n");
  const again = await project.add();
  assertEquals(inState(again, "released"), [], "it is the project's now");
  assert(isUpToDate(again));
});

Deno.test("a folder that nothing of the receiver is left in is removed, one with a file of the project's is not", async () => {
  await using project = await makeProject();
  await project.add(before);
  const mine = "supabase/functions/billing-worker/old/mine.ts";
  await project.write(mine, "// mine\n");
  await project.add();
  assertEquals(await project.read(mine), "// mine\n");

  await using other = await makeProject();
  await other.add(before);
  await other.add();
  await assertRejects(
    () => Deno.stat(`${other.path}/supabase/functions/billing-worker/old`),
    Deno.errors.NotFound,
  );
});

Deno.test("a file that the project does not have any more comes back", async () => {
  await using project = await makeProject();
  await project.add();
  await Deno.remove(`${project.path}/supabase/${WORKER}`);
  assertEquals(inState(await project.add(), "new"), [WORKER]);
});

Deno.test("files that git checked out with CRLF count as unchanged", async () => {
  await using project = await makeProject();
  await project.add(before);
  for (const [path, text] of Object.entries(await project.tree())) {
    if (path.endsWith(".ts") || path.endsWith(".example")) {
      await project.write(path, text.replaceAll("\n", "\r\n"));
    }
  }
  const plan = await project.add();
  assertEquals(inState(plan, "conflict"), []);
  assertEquals(inState(plan, "updated"), [ENV, WEBHOOK, WORKER]);
  assert(isUpToDate(await project.add()));
});

Deno.test("settings around the receiver's in .env.example stay where they are", async () => {
  const path = `supabase/${ENV}`;
  await using project = await makeProject({ ...THEIRS, [path]: "A=1\r\n" });
  await project.add(before);
  await project.write(path, `${await project.read(path)}B=2\r\n`);
  assertEquals(inState(await project.add(), "updated"), [ENV, WEBHOOK, WORKER]);
  const after = await project.read(path);
  assert(after.startsWith("A=1\r\n\r\n# billing-webhook begins"), after);
  assert(after.endsWith("# billing-webhook ends.\r\nB=2\r\n"), after);
  assertStringIncludes(after, "#PROVIDER_A_MODE=any\r\n");
  assert(!after.includes("OLDER"));
});

Deno.test("settings that the user changed in .env.example are kept", async () => {
  const path = `supabase/${ENV}`;
  await using project = await makeProject();
  await project.add(before);
  const mine = (await project.read(path)).replace("#OLDER=1", "OLDER=2");
  await project.write(path, mine);
  assertEquals(inState(await project.add(), "conflict"), [ENV]);
  assertEquals(await project.read(path), mine);
});

Deno.test("a squashed history gets only what is newer", async () => {
  await using project = await makeProject();
  await project.add(before);
  for (
    const { name } of Deno.readDirSync(`${project.path}/supabase/migrations`)
  ) {
    await Deno.remove(`${project.path}/supabase/migrations/${name}`);
  }
  await project.write("supabase/migrations/20270101000000_squashed.sql", "--");
  const plan = await project.add();
  assertEquals(
    [...plan.migrations.added.keys()].map((name) => name.slice(0, 14)),
    ["20270101000001", "20270101000002"],
  );
  const shown = planLines(plan).join("\n");
  assertStringIncludes(shown, "Squashed, and not added again: 0001 to 00");
  assertStringIncludes(shown, "select public.revoke_billing_rights();");
  assert(isUpToDate(await project.add()));
});

Deno.test("two developers who added on two branches: both copies are named, and one is to be deleted", async () => {
  await using project = await makeProject();
  await project.add();
  const earlier = Object.keys(await project.tree())
    .filter((it) => it.includes("_billing_"));
  for (const path of earlier) {
    const later = path.replace("/20261122", "/20261123");
    await project.write(later, await project.read(path));
  }
  const merged = await project.tree();
  const { message } = await assertRejects(() => project.add(), Error);
  assertStringIncludes(message, earlier[0]!);
  assertStringIncludes(
    message,
    `rm ${earlier[0]!.replace("/20261122", "/20261123")}`,
  );
  assertEquals(await project.tree(), merged, "nothing is deleted for them");

  // The other branch's manifest may be the one that the merge kept.
  const manifest = "supabase/billing.json";
  const text = await project.read(manifest);
  await project.write(manifest, text.replaceAll('"20261122', '"20261123'));
  const [, command = ""] = message.split(/^ {2}rm /m);
  for (const path of command.split(/\s[\s\\]*/)) {
    await Deno.remove(`${project.path}/${path}`);
  }
  const plan = await project.add();
  assertEquals(plan.migrations.squashed, []);
  assertEquals([...plan.migrations.added], []);
  assertEquals(await project.read(manifest), text);
});

Deno.test("an older clone does not take a newer version back", async () => {
  await using project = await makeProject();
  await project.add();
  const tree = await project.tree();
  const sameNumber = olderVersion({
    version: receiver.version,
    migrationsLess: 1,
  });
  for (const older of [before, sameNumber]) {
    const { message } = await assertRejects(() => project.add(older), Error);
    assertStringIncludes(message, "Run add from a newer clone");
  }
  assertEquals(await project.tree(), tree);
});
