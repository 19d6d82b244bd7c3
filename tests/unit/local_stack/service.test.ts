import { assert, assertEquals, assertRejects } from "@std/assert";
import { createService } from "../../../scripts/local_stack/service.ts";
import { lookUpProcess } from "../../../scripts/common/processes.ts";

/** Returns a service that runs a script. */
function scriptService(script: string) {
  const lines: string[] = [];
  let id = NaN;
  const ended = Promise.withResolvers<string>();
  const service = createService({
    name: "script",
    command: Deno.execPath(),
    args: ["eval", script],
    env: { NO_COLOR: "1" },
    cwd: Deno.cwd(),
    isReady: (processId) => {
      id = processId;
      return lines.includes("ready");
    },
    stopSignal: "SIGTERM",
  }, {
    onLog: (line) => lines.push(line),
    onUnexpectedEnd: ended.resolve,
  });
  return { service, id: () => id, ended: ended.promise };
}

const STAYS = "console.log('ready'); setInterval(() => {}, 1000);";

Deno.test("service starts, stops, and starts again", async () => {
  const { service, id } = scriptService(STAYS);
  for (const end of [service.stop, service.kill]) {
    await service.start();
    assert(await lookUpProcess(id()));
    await end();
    assertEquals(await lookUpProcess(id()), undefined);
  }
});

Deno.test("service that ends by itself is reported with its last lines", async () => {
  const { service, ended } = scriptService(
    "console.log('ready'); setTimeout(() => { console.error('why'); Deno.exit(3); }, 300);",
  );
  await service.start();
  assertEquals(
    await ended,
    "script ended with code 3\n  ready\n  why",
  );
});

Deno.test("service that ends at once fails to start, with its last lines", async () => {
  const { service } = scriptService("console.error('why'); Deno.exit(1);");
  await assertRejects(() => service.start(), Error, "ended at once.\n  why");
});

Deno.test("service stops starting when the signal is aborted", async () => {
  const { service } = scriptService("setInterval(() => {}, 1000);");
  const ending = new AbortController();
  const started = service.start(ending.signal);
  ending.abort(new Error("told to"));
  await assertRejects(() => started, Error, "told to");
  await service.stop();
});
