import { assertEquals } from "@std/assert";
import { join } from "node:path";
import {
  isLoopback,
  isLoopbackHost,
} from "../../../scripts/common/loopback.ts";
import {
  findRunningStack,
  publishRunningStack,
  RUNNING_FILE,
} from "../../../scripts/common/running_stack.ts";

const HERE = ["localhost", "LOCALHOST", "127.0.0.1", "127.9.8.7", "[::1]"];

const ELSEWHERE = [
  "127.evil.example",
  "127.0.0.1.evil.example",
  "localhost.evil.example",
  "evil-localhost",
  "10.0.0.1",
  "0.0.0.0",
  "[::2]",
  "abc.supabase.co",
];

Deno.test("isLoopback() and isLoopbackHost() know this machine, with any scheme and port", () => {
  for (const host of [...HERE, ...ELSEWHERE]) {
    const isHere = HERE.includes(host);
    for (const url of [`http://${host}`, `postgresql://u:p@${host}:1234/x`]) {
      assertEquals(isLoopback(url), isHere, url);
    }
    assertEquals(isLoopback(`http://127.0.0.1@${host}`), isHere, host);
    assertEquals(isLoopbackHost(host), isHere, host);
    assertEquals(isLoopbackHost(`${host}:54321`), isHere, host);
  }
  for (const text of ["", "nonsense", "localhost:", "localhost:x", "::1"]) {
    assertEquals([isLoopback(text), isLoopbackHost(text)], [false, false]);
  }
});

Deno.test("findRunningStack() finds a stack while it runs, and believes no other file", async () => {
  const folder = await Deno.makeTempDir();
  const find = () => findRunningStack({ BILLING_STACK_DATA: folder });
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const apiUrl = `http://127.0.0.1:${listener.addr.port}`;
  const dbUrl = "postgresql://postgres:postgres@127.0.0.1:5/postgres";
  const file = join(folder, RUNNING_FILE);

  assertEquals(await find(), undefined);
  {
    await using _running = await publishRunningStack(folder, { apiUrl, dbUrl });
    assertEquals(await find(), { apiUrl, dbUrl });
    assertEquals((await Deno.stat(file)).mode! & 0o777, 0o600);

    const text = await Deno.readTextFile(file);
    const said = JSON.parse(text);
    for (
      const other of [
        [],
        null,
        // Beyond the largest process ID of Linux.
        { ...said, processId: 4_194_305 },
        { ...said, processId: `${Deno.pid}` },
        { ...said, apiUrl: apiUrl.replace("127.0.0.1", "evil.example") },
        { ...said, dbUrl: undefined },
      ]
    ) {
      await Deno.writeTextFile(file, JSON.stringify(other));
      assertEquals(await find(), undefined, JSON.stringify(other));
    }
    await Deno.writeTextFile(file, text);

    if (Deno.uid() === 0) {
      await Deno.chown(file, 65_534, 65_534);
      assertEquals(await find(), undefined, "another account wrote it");
      await Deno.chown(file, 0, 0);
    }

    assertEquals((await find())?.apiUrl, apiUrl);
    listener.close();
    assertEquals(await find(), undefined, "nothing listens");
  }
  assertEquals(Array.from(Deno.readDirSync(folder)), []);
  await Deno.remove(folder);
});
