/**
 * What the Supabase CLI uploads is what Supabase runs: it is unpacked where
 * nothing else is, and served by the Deno that Supabase's runtime is built on.
 *
 * @module
 */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { localKeys } from "../../scripts/stack/keys.ts";
import { edgeDenoPath } from "../../scripts/test/edge_deno.ts";
import { subscriptionEvent } from "../fixtures/event.ts";
import { uniqueId } from "../fixtures/unique_id.ts";
import { deliver, post } from "../support/send.ts";
import { connect, subscriptionRecord } from "../support/tables.ts";
import { deployFunction } from "./deploy_function.ts";
import { serveUpload } from "./serve_upload.ts";
import { type Upload, uploadSize, withFile } from "./upload.ts";
import { uploadFaults } from "./upload_faults.ts";

/** Supabase's limit is 20 MB with the packages; the sources are a fraction. */
const SOURCES_LIMIT = 1_000_000;

const SHARED = "supabase/functions/_shared";

const denoPath = await edgeDenoPath();
const uploads = {
  "billing-webhook": await deployFunction("billing-webhook"),
  "billing-worker": await deployFunction("billing-worker"),
};
const webhook = uploads["billing-webhook"];

for (const [name, upload] of Object.entries(uploads)) {
  Deno.test(`${name} is deployed with its entry point and import map, and without verify_jwt`, () => {
    assertEquals(upload.metadata, {
      ...upload.metadata,
      name,
      entrypoint_path: `supabase/functions/${name}/index.ts`,
      import_map_path: "import_map.json",
      verify_jwt: false,
    });
  });

  Deno.test(`${name} is uploaded whole, and nothing besides`, async () => {
    assertEquals(await uploadFaults(upload, { denoPath }), []);
    const paths = [...upload.files.keys()];
    assertEquals(paths.filter((path) => !isExpected(path, name)), []);
    const size = uploadSize(upload);
    console.log(`${name}: ${paths.length} files, ${size} bytes`);
    assert(size < SOURCES_LIMIT);
  });
}

Deno.test("the uploaded webhook applies a signed event", async () => {
  const sql = connect();
  try {
    await using served = await serveUpload(webhook, { denoPath });
    const subscription = uniqueId("sub");
    const { status, body } = await deliver(
      served.url,
      subscriptionEvent("customer.subscription.created", {
        subscription,
        account: "acc_deployed",
      }),
    );
    assertEquals({ status, body }, { status: 200, body: "OK" });
    const record = await subscriptionRecord(sql, subscription);
    assertEquals(record?.account_id, "acc_deployed");
  } finally {
    await sql.end();
  }
});

Deno.test("the uploaded worker lets in the secret key alone", async () => {
  const { secret, publishable } = await localKeys();
  await using served = await serveUpload(uploads["billing-worker"], {
    denoPath,
  });
  const stranger = await post(served.url, {});
  assertEquals(stranger.status, 401);
  const app = await post(served.url, { headers: { apikey: publishable } });
  assertEquals(app.status, 401);
  const schedule = await post(served.url, { headers: { apikey: secret } });
  assertEquals(schedule.status, 200);
});

const BROKEN: Record<string, { upload: Upload; fault: string }> = {
  "a file is left out": {
    upload: withFile(webhook, {
      path: `${SHARED}/log.ts`,
      change: () => undefined,
    }),
    fault: `Cannot load ${SHARED}/log.ts`,
  },
  "the import map lacks a package": {
    upload: withFile(webhook, {
      path: "import_map.json",
      change: (text) => text.replace('"zod"', '"not-zod"'),
    }),
    fault: `${SHARED}/apply_events.ts cannot import zod`,
  },
};

for (const [what, { upload, fault }] of Object.entries(BROKEN)) {
  Deno.test(`a bundle is refused and not served where ${what}`, async () => {
    const faults = await uploadFaults(upload, { denoPath });
    assert(faults.includes(fault), faults.join("\n"));
    await assertRejects(
      async () =>
        await (await serveUpload(upload, { denoPath }))
          [Symbol.asyncDispose](),
      Error,
      "Cannot start billing-webhook",
    );
  });
}

Deno.test("a bundle is refused where it has a file that nothing imports", async () => {
  const upload = withFile(webhook, {
    path: "supabase/functions/.env",
    change: () => "PROVIDER_A_SIGNING_SECRET=whsec_1",
  });
  assertEquals(await uploadFaults(upload, { denoPath }), [
    "Nothing imports supabase/functions/.env",
  ]);
});

/** Only the function's own code, what it shares, and the import map. */
function isExpected(path: string, name: string): boolean {
  return path === "import_map.json" ||
    [name, "_shared"].some((folder) =>
      path.startsWith(`supabase/functions/${folder}/`) && path.endsWith(".ts")
    );
}
