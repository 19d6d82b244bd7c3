/**
 * Supabase runs what its CLI uploads: the upload has to be complete, and to
 * name the package versions that the gate has tested. deploy_page.test.ts
 * serves it.
 *
 * @module
 */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { edgeDenoPath } from "../../scripts/dev/downloads.ts";
import { deployFunction } from "./deploy_function.ts";
import { serveUpload } from "./serve_upload.ts";
import { type Upload, uploadSize, withFile } from "./upload.ts";
import { uploadFaults } from "./upload_faults.ts";

/** Supabase's limit is 20 MB with the packages; the sources are a fraction. */
const SOURCES_LIMIT = 1_000_000;

const SHARED = "supabase/functions/_shared/billing";
const WEBHOOK_IMPORTS = "supabase/functions/billing-webhook/deno.json";

const WORKER_LOCK = "supabase/functions/billing-worker/deno.lock";

const denoPath = await edgeDenoPath();
const uploads = {
  "billing-webhook": await deployFunction("billing-webhook"),
  "billing-worker": await deployFunction("billing-worker"),
};
const webhook = uploads["billing-webhook"];

for (const [name, upload] of Object.entries(uploads)) {
  Deno.test(`${name} is deployed with its entry point and its own deno.json, and without verify_jwt`, () => {
    assertEquals(upload.metadata, {
      ...upload.metadata,
      name,
      entrypoint_path: `supabase/functions/${name}/index.ts`,
      import_map_path: `supabase/functions/${name}/deno.json`,
      verify_jwt: false,
    });
  });

  Deno.test(`${name} is uploaded whole, and nothing besides`, async () => {
    assertEquals(await uploadFaults(upload, { denoPath }), []);
    const paths = [...upload.files.keys()];
    assertEquals(paths.filter((path) => !isExpected(path, name)), []);
    // Nothing imports it, so it is only there if config.toml names it.
    assert(paths.includes(`supabase/functions/${name}/deno.lock`));
    const size = uploadSize(upload);
    console.log(`${name}: ${paths.length} files, ${size} bytes`);
    assert(size < SOURCES_LIMIT);
  });
}

// Whether Supabase's bundler reads the lock file is not known.
const unlocked = withFile(uploads["billing-worker"], {
  path: WORKER_LOCK,
  change: () => undefined,
});

Deno.test("the platform's Deno takes the versions of deno.json without the lock too", async () => {
  assertEquals(await uploadFaults(unlocked, { denoPath }), []);
});

Deno.test("a bundle is refused if a package has another version than its deno.json says", async () => {
  const unpinned = withFile(unlocked, {
    path: unlocked.metadata.entrypoint_path,
    change: (text) => text.replace('import "@supabase/supabase-js";\n', ""),
  });
  const faults = await uploadFaults(unpinned, { denoPath });
  assert(
    faults.some((fault) => fault.startsWith("@supabase/supabase-js is ")),
    faults.join("\n"),
  );
});

const BROKEN: Record<string, { upload: Upload; fault: string }> = {
  "a file is left out": {
    upload: withFile(webhook, {
      path: `${SHARED}/log.ts`,
      change: () => undefined,
    }),
    fault: `Cannot load ${SHARED}/log.ts`,
  },
  "its deno.json lacks a package": {
    upload: withFile(webhook, {
      path: WEBHOOK_IMPORTS,
      change: (text) => text.replace('"zod/mini"', '"not-zod"'),
    }),
    fault: `${SHARED}/apply_events.ts cannot import zod/mini`,
  },
};

for (const [what, { upload, fault }] of Object.entries(BROKEN)) {
  Deno.test(`a bundle is refused and not served if ${what}`, async () => {
    const faults = await uploadFaults(upload, { denoPath });
    assert(faults.includes(fault), faults.join("\n"));
    await assertRejects(
      async () =>
        await (await serveUpload(upload, { denoPath, env: {} }))
          [Symbol.asyncDispose](),
      Error,
      "Cannot start billing-webhook",
    );
  });
}

for (
  const [what, change, says] of [
    [
      "a checksum in its lock is wrong",
      (text: string) =>
        text.replace(/("jose@[^"]+": \{\s+"integrity": "sha512-)./, "$1_"),
      'Integrity check failed for package: "npm:jose@',
    ],
    [
      "a dependency of a package is not in its lock",
      (text: string) =>
        text.replace(/ *"npm:@supabase\/postgrest-js@[^\n]+\n/, ""),
      "The lockfile is out of date",
    ],
    ["it has no lock", () => undefined, "it ended at once"],
  ] as const
) {
  Deno.test(`a bundle is not served by the platform's Deno if ${what}`, async () => {
    const worker = uploads["billing-worker"];
    const upload = withFile(worker, { path: WORKER_LOCK, change });
    assert(upload.files.get(WORKER_LOCK) !== worker.files.get(WORKER_LOCK));
    await assertRejects(
      async () =>
        await (await serveUpload(upload, { denoPath, env: {} }))
          [Symbol.asyncDispose](),
      Error,
      says,
    );
  });
}

Deno.test("a bundle is refused if it has a file that nothing imports", async () => {
  const upload = withFile(webhook, {
    path: "supabase/functions/.env",
    change: () => "PROVIDER_A_SIGNING_SECRET=whsec_1",
  });
  assertEquals(await uploadFaults(upload, { denoPath }), [
    "Nothing imports supabase/functions/.env",
  ]);
});

/** Only the function's own code, what it shares, its `deno.json` and its lock. */
function isExpected(path: string, name: string): boolean {
  return path === `supabase/functions/${name}/deno.json` ||
    path === `supabase/functions/${name}/deno.lock` ||
    [name, "_shared"].some((folder) =>
      path.startsWith(`supabase/functions/${folder}/`) && path.endsWith(".ts")
    );
}
