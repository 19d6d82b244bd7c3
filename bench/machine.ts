/** What the figures were measured on, in one line. */
export async function describeMachine(): Promise<string> {
  const cpus = await Deno.readTextFile("/proc/cpuinfo").catch(() => "");
  const model = /model name\s*: (.*)/.exec(cpus)?.[1] ?? "unknown processor";
  const memory = Math.round(Deno.systemMemoryInfo().total / 2 ** 30);
  return `${navigator.hardwareConcurrency} cores (${model}), ${memory} GiB, ` +
    `${Deno.build.os} ${Deno.osRelease()}, Deno ${Deno.version.deno}, ` +
    "Postgres 17.10 with fsync on, PostgREST 12.0.2";
}
