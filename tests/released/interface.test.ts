/**
 * What docs/stability.md promises is as every release of this major version has
 * it: each item is taken from what really happens, and compared with the list of
 * the releases.
 *
 * @module
 */
import { assertEquals, assertRejects } from "@std/assert";
import { COMMANDS } from "../../scripts/dev/npm_package.ts";
import { PROMISES } from "../../scripts/dev/release/promises.ts";
import {
  type Items,
  readReleased,
  writeReleased,
} from "../../scripts/dev/release/released.ts";
import {
  ANSWERS,
  DeliveryError,
  type ErrorCode,
} from "../../supabase/functions/_shared/billing/errors.ts";
import {
  respondError,
  respondOk,
} from "../../supabase/functions/billing-webhook/handle_webhook.ts";
import { connect } from "../support/tables.ts";
import { commandItems, exitCodeItems } from "./command_items.ts";
import { databaseItems } from "./database_items.ts";
import { jsonItems } from "./json_items.ts";
import { messageItems } from "./message_items.ts";
import { brokenPromises, checkPromise, withPromises } from "./promise.ts";
import { settingItems } from "./setting_items.ts";

Deno.test("the tables, views and functions are as promised", async () => {
  const sql = connect();
  try {
    const items = await databaseItems(sql);
    await checkPromise(["column", "right", "function", "argument"], items);
  } finally {
    await sql.end();
  }
});

Deno.test("the settings are as promised", async () => {
  await checkPromise(["setting", "scheme", "default"], await settingItems());
});

Deno.test("the commands, their options and their exit codes are as promised", async () => {
  await checkPromise(["command", "option", "variable", "exit"], {
    ...await commandItems(COMMANDS),
    ...await exitCodeItems(COMMANDS),
  });
});

Deno.test("what --json prints is as promised", async () => {
  const sql = connect();
  try {
    await checkPromise(["json"], await jsonItems(sql));
  } finally {
    await sql.end();
  }
});

Deno.test("the answers to the provider are as promised", async () => {
  const codes = Object.keys(ANSWERS) as ErrorCode[];
  const answers = [
    ["applied", respondOk()] as const,
    ...codes.map((code) =>
      [code, respondError(new DeliveryError(code, "A test"))] as const
    ),
  ];
  const items = await Promise.all(answers.map(async ([code, response]) => [
    `answer ${code}`,
    `${response.status} ${await response.text()}`.trimEnd(),
  ]));
  await checkPromise(["answer"], Object.fromEntries(items));
});

Deno.test("notifications and alerts are as promised", async () => {
  await checkPromise(["notification"], await messageItems());
});

Deno.test("what is gone or another breaks a promise, and what is new does not", () => {
  const released = {
    "0.9.0": { "column t.old": "text" },
    "1.0.0": { "column t.a": "text", "column t.b": "text", "exit code x": "1" },
    "1.1.0": { "column t.c": "text" },
  };
  const items = {
    "column t.a": "integer",
    "column t.c": "text",
    "column t.d": "x",
  };
  const options = { kinds: ["column"], items };
  const faults = brokenPromises(released, { ...options, version: "1.2.0" });
  assertEquals(faults, [
    '"column t.a" was promised with 1.0.0 as "text", and is "integer" now.',
    '"column t.b" was promised with 1.0.0 as "text", and is gone.',
  ]);
  assertEquals(brokenPromises(released, { ...options, version: "2.0.0" }), []);
});

Deno.test("a release that breaks a promise writes nothing, and none writes the list itself", async () => {
  const folder = await Deno.makeTempDir({ prefix: "billing-webhook-list-" });
  try {
    const list = `${folder}/interface.json`;
    const released = { "1.0.0": { "column t.a": "text" } };
    await writeReleased(list, released);
    const before = await readReleased(PROMISES);
    const check = (items: Items) =>
      checkPromise(["column"], items, { version: "1.1.0", list });
    await assertRejects(
      () => check({ "column t.b": "text" }),
      Error,
      '"column t.a" was promised with 1.0.0 as "text", and is gone.',
    );
    assertEquals(await readReleased(list), released);
    const items = { "column t.a": "text", "column t.b": "text" };
    await check(items);
    assertEquals(await readReleased(list), {
      ...released,
      "1.1.0": { "column t.b": "text" },
    });
    assertEquals(await readReleased(PROMISES), before);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("the first release of a major version promises all that it has anew", () => {
  const released = {
    "1.0.0": { "column t.a": "text" },
    "1.1.0": { "column t.b": "text" },
  };
  const items = { "column t.a": "text", "column t.b": "integer" };
  const next = withPromises(released, { version: "2.0.0", items });
  assertEquals(next, { ...released, "2.0.0": items });
  const options = { kinds: ["column"], items: {}, version: "2.0.1" };
  assertEquals(brokenPromises(next, options).length, 2);
  const added = { ...items, "column t.c": "text" };
  assertEquals(withPromises(next, { version: "2.1.0", items: added }), {
    ...next,
    "2.1.0": { "column t.c": "text" },
  });
});
