import { assertEquals } from "@std/assert";
import { join } from "node:path";
import {
  findRunningStack,
  publishRunningStack,
  RUNNING_FILE,
} from "../../../scripts/common/running_stack.ts";

/** Runs `use` with a folder, and the URLs of a stack whose gateway listens. */
async function withStack(
  use: (
    stack: {
      folder: string;
      urls: { apiUrl: string; dbUrl: string };
      hangUp: () => void;
    },
  ) => Promise<void>,
): Promise<void> {
  const folder = await Deno.makeTempDir();
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  let isOpen = true;
  function hangUp() {
    if (isOpen) listener.close();
    isOpen = false;
  }
  const urls = {
    apiUrl: `http://127.0.0.1:${listener.addr.port}`,
    dbUrl: "postgresql://postgres:postgres@127.0.0.1:5/postgres",
  };
  try {
    await use({ folder, urls, hangUp });
  } finally {
    hangUp();
    await Deno.remove(folder, { recursive: true });
  }
}

const find = (folder: string) =>
  findRunningStack({ BILLING_STACK_DATA: folder });

Deno.test("findRunningStack() finds a stack while it runs", async () => {
  await withStack(async ({ folder, urls }) => {
    assertEquals(await find(folder), undefined);
    {
      await using _running = await publishRunningStack(folder, urls);
      const found = await find(folder);
      assertEquals(found?.apiUrl, urls.apiUrl);
      assertEquals(found?.dbUrl, urls.dbUrl);
      assertEquals(
        found?.webhookUrl,
        `${urls.apiUrl}/functions/v1/billing-webhook`,
      );
      const { mode } = await Deno.stat(join(folder, RUNNING_FILE));
      assertEquals(mode! & 0o777, 0o600);
    }
    assertEquals(await find(folder), undefined);
    assertEquals(Array.from(Deno.readDirSync(folder)), []);
  });
});

Deno.test("findRunningStack() does not believe a file that a killed stack left", async () => {
  await withStack(async ({ folder, urls, hangUp }) => {
    await using _running = await publishRunningStack(folder, urls);
    const file = join(folder, RUNNING_FILE);
    const said = JSON.parse(await Deno.readTextFile(file));
    // Beyond the largest process ID of Linux.
    const gone = JSON.stringify({ ...said, processId: 4_194_305 });
    await Deno.writeTextFile(file, gone);
    assertEquals(await find(folder), undefined, "its process is gone");
    await Deno.writeTextFile(file, JSON.stringify(said));
    assertEquals((await find(folder))?.apiUrl, urls.apiUrl);
    hangUp();
    assertEquals(await find(folder), undefined, "nothing listens");
  });
});

Deno.test("findRunningStack() believes no file that leads elsewhere, or is no stack's", async () => {
  await withStack(async ({ folder, urls }) => {
    await using _running = await publishRunningStack(folder, urls);
    const file = join(folder, RUNNING_FILE);
    const said = JSON.parse(await Deno.readTextFile(file));
    for (
      const text of [
        "",
        "[]",
        "null",
        JSON.stringify({
          ...said,
          apiUrl: urls.apiUrl.replace("127.0.0.1", "evil.example"),
        }),
        JSON.stringify({ ...said, dbUrl: undefined }),
        JSON.stringify({ ...said, processId: "1" }),
      ]
    ) {
      await Deno.writeTextFile(file, text);
      assertEquals(await find(folder), undefined, text);
    }
  });
});
