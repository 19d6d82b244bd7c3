import { existsSync } from "node:fs";
import type { Environment } from "./environment.ts";

/** Starts every process of this project: Deno and npm's tools may download at any time. */
export function createCommand(
  program: string,
  options: Deno.CommandOptions = {},
): Deno.Command {
  return new Deno.Command(program, {
    ...options,
    env: { ...trustedCertificates(Deno.env.toObject()), ...options.env },
  });
}

/**
 * Returns the settings with which every version of Deno trusts the certificates
 * that this machine trusts. Behind a proxy that inspects TLS,
 * NODE_EXTRA_CA_CERTS or SSL_CERT_FILE names the proxy's certificate: Deno 2.1.4
 * reads neither, Deno 2.9.6 only the first. The user's own settings win.
 */
export function trustedCertificates(env: Environment): Environment {
  const { NODE_EXTRA_CA_CERTS: extra, SSL_CERT_FILE: system } = env;
  const {
    DENO_CERT = [extra, system].find((path) => path && existsSync(path)),
    DENO_TLS_CA_STORE = "mozilla,system",
  } = env;
  return {
    ...(DENO_CERT !== undefined && { DENO_CERT }),
    // Deno 2.1.4 crashes if the file does not exist.
    ...((system === undefined || existsSync(system)) && { DENO_TLS_CA_STORE }),
  };
}

export interface ProcessEntry {
  readonly parent: number;
  /** When it began, in the system's own notation; unique with the id. */
  readonly started: string;
  readonly command: string;
}

const isLinux = Deno.build.os === "linux";

/** A process that has ended counts as gone even if its parent has not collected it. */
export async function lookUpProcess(
  id: number,
): Promise<ProcessEntry | undefined> {
  return isLinux ? await readProc(id) : (await askPs("-p", `${id}`)).get(id);
}

/** Signals a process, or a group by its negative ID, if it still exists. */
export function signalTo(id: number, signal: Deno.Signal): void {
  try {
    Deno.kill(id, signal);
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
}

export async function runningProcesses(): Promise<Map<number, ProcessEntry>> {
  if (!isLinux) return await askPs("-A");

  const running = new Map<number, ProcessEntry>();
  for (const { name } of Deno.readDirSync("/proc")) {
    const entry = /^\d+$/.test(name) ? await readProc(+name) : undefined;
    if (entry) running.set(+name, entry);
  }
  return running;
}

// On Linux from /proc, because small images have no `ps`.
async function readProc(id: number): Promise<ProcessEntry | undefined> {
  try {
    const stat = await Deno.readTextFile(`/proc/${id}/stat`);
    const command = await Deno.readTextFile(`/proc/${id}/cmdline`);
    // proc(5): the name, field 2, is in brackets and may hold anything.
    const { 0: state, 1: parent, 19: started } = stat
      .slice(stat.lastIndexOf(")") + 2).split(" ");
    if (state === "Z" || parent === undefined || started === undefined) return;

    return {
      parent: Number(parent),
      started,
      command: command.replaceAll("\0", " ").trim(),
    };
  } catch {
    return undefined; // it ended, here or between the two reads
  }
}

const COLUMNS = ["pid=", "ppid=", "stat=", "lstart=", "command="];
const LINE = /^\s*(\d+)\s+(\d+)\s+[^Z\s]\S*\s+(\w+ \w+ +\d+ [\d:]+ \d+)\s+(.*)/;

async function askPs(...which: string[]): Promise<Map<number, ProcessEntry>> {
  const { stdout } = await createCommand("ps", {
    args: [...which, ...COLUMNS.flatMap((column) => ["-o", column])],
    env: { LC_ALL: "C" },
    stderr: "null",
  }).output();

  const found = new Map<number, ProcessEntry>();
  for (const line of new TextDecoder().decode(stdout).split("\n")) {
    const [, id, parent, started = "", command = ""] = LINE.exec(line) ?? [];
    if (id === undefined) continue;
    found.set(Number(id), {
      parent: Number(parent),
      started,
      command: command.trim(),
    });
  }
  return found;
}
