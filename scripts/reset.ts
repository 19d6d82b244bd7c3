import { existsSync } from "node:fs";
import { commandLine, reportEnd } from "./common/cli.ts";
import { defaultStateFolder } from "./common/running_stack.ts";
import { DATA_OPTION, dataFolder } from "./local_stack/start_arguments.ts";
import { openStateFolder } from "./local_stack/state_folder.ts";

const parse = commandLine({
  usage: "reset",
  summary:
    `Deletes the local data: every record, event and notification of the local
stack. Ends processes that a killed stack left behind.`,
  options: DATA_OPTION,
});

if (import.meta.main) Deno.exit(await reset(Deno.args).catch(reportEnd));

async function reset(args: readonly string[]): Promise<number> {
  const { values } = parse(args);
  const path = dataFolder(values.data, Deno.env.toObject()) ??
    await defaultStateFolder();
  if (!existsSync(path)) {
    console.log(`There is no data in ${path}`);
    return 0;
  }
  await (await openStateFolder(path)).empty();
  console.log(`Emptied ${path}`);
  return 0;
}
