import { commandLine, reportEnd } from "../common/cli.ts";
import { createCommand } from "../common/processes.ts";
import { LOCAL_SIGNING_SECRETS } from "../common/environment.ts";
import { createLiveView } from "../live_view/live_view.ts";
import { startNotificationReceiver } from "../local_stack/notification_receiver.ts";
import { startStack } from "../local_stack/stack.ts";
import { waitUntil } from "../local_stack/wait_until.ts";

const PICTURE = "docs/images/live_view.svg";

/** The arguments of `trigger`, and what the last line of each contains. */
const EVENTS = [
  ["customer.subscription.created", "applied"],
  ["invoice.payment_failed", "notifications delivered"],
  ["customer.subscription.updated --subscription sub_b", "creation first"],
  ["customer.subscription.created --subscription sub_b", "failures retried"],
] as const;

const COLORS = {
  dim: "#9198a1",
  green: "#56d364",
  yellow: "#e3b341",
  red: "#ff7b72",
  cyan: "#79c0ff",
};

if (import.meta.main) {
  await writePicture().catch((error) => Deno.exit(reportEnd(error)));
}

async function writePicture(): Promise<void> {
  commandLine({
    usage: "picture",
    summary:
      "Draws the README's picture, of events that it sends to a new local stack.",
    options: {},
  })(Deno.args);
  const dataDir = await Deno.makeTempDir({ prefix: "billing-webhook-data-" });
  try {
    await Deno.writeTextFile(PICTURE, draw(await record(dataDir)));
    console.log(`Wrote ${PICTURE}`);
  } finally {
    await Deno.remove(dataDir, { recursive: true });
  }
}

/** Returns lines of SVG: none of these texts has a character that XML escapes. */
async function record(dataDir: string): Promise<string[]> {
  const lines: string[] = [];
  const log = createLiveView({
    print: (line) => lines.push(line),
    columns: () => 80,
    paint: (style, text) => `<tspan fill="${COLORS[style]}">${text}</tspan>`,
    clock: Date.now,
  });
  await using receiver = startNotificationReceiver((line) =>
    log(line, "notification")
  );
  const env = receiver.addTo(LOCAL_SIGNING_SECRETS);
  await using stack = await startStack({ dataDir, env, onLog: log });
  lines.length = 0;

  for (const [event, last] of EVENTS) {
    const args = `task trigger --url ${stack.urls.webhook} ${event}`.split(" ");
    await createCommand(Deno.execPath(), { args }).output();
    const isShown = () => lines.some((line) => line.includes(last));
    if (!await waitUntil(isShown, { timeoutMs: 20_000 })) {
      throw new Error(`No "${last}" in:\n${lines.join("\n")}`);
    }
  }
  return [...lines]; // without what is printed when the stack ends
}

function draw(lines: string[]): string {
  const rows = lines.map((line, i) =>
    `<text x="18" y="${i * 22 + 32}">${line}</text>\n`
  );
  const height = rows.length * 22 + 28;
  return `<svg xmlns="http://www.w3.org/2000/svg" width="756" height="${height}">
<style>
svg { background: #0d1117 }
text { font: 14.5px ui-monospace, monospace; fill: #e6edf3; white-space: pre }
</style>
${rows.join("")}</svg>
`;
}
