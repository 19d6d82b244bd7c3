#!/usr/bin/env node
/**
 * The program of the npm package, on Node.js: runs a command with the Deno that
 * the package depends on, in the folder that the user is in.
 *
 * @module
 */
import { spawn, spawnSync } from "node:child_process";
import { existsSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";

/** The commands, with what `--help` says of each. */
const COMMANDS = {
  add: "puts the receiver into a project that you have, or updates it",
  start: "runs the project's receiver on this machine, without Docker",
  trigger: "signs and sends an event, and shows what became of it",
  doctor: "checks a deployment, and says what to fix",
  console: "a page for failures: why, repair, retry",
  import: "records the subscriptions that Stripe already has",
  reconcile: "shows what differs from Stripe; --apply fixes it",
  token: "prints a token for a user of the local stack",
  reset: "deletes the local data",
};

/** They need Postgres, PostgREST and the Supabase CLI. */
const WITH_STACK = ["start", "reset"];

const USAGE_ERROR = 2;
const ROOT = fileURLToPath(new URL("../..", import.meta.url));
/** The folder that npx installs into, and uses again as it is. */
const INSTALLED = dirname(dirname(ROOT));
const STACK = join(ROOT, "scripts", "npx", "stack");
/** An empty file, made when the packages were downloaded. */
const DOWNLOADED = join(ROOT, "scripts", "npx", "downloaded");
/** How Deno finds the packages, whatever the project has. */
const FLAGS = [
  "--quiet",
  "--no-config",
  "--node-modules-dir=none",
  `--import-map=${join(ROOT, "import_map.json")}`,
  `--lock=${join(ROOT, "scripts", "npx", "deno.lock")}`,
  "--frozen",
];
const require = createRequire(import.meta.url);
const { name, version, engines, optionalDependencies } = require(
  "../../package.json",
);

process.exitCode = main(process.argv.slice(2));

function main([command = "--help", ...args]) {
  const [needed] = /\d+/.exec(engines.node);
  if (Number.parseInt(process.versions.node) < Number(needed)) {
    return refuse(
      `This needs Node.js ${needed} or newer, and runs on ${process.version}.`,
    );
  }
  if (["--help", "-h", "help"].includes(command)) return say(helpText());
  if (["--version", "-v"].includes(command)) return say(version);
  if (!Object.hasOwn(COMMANDS, command)) {
    return refuse(
      `There is no command ${JSON.stringify(command)}. See --help.`,
      USAGE_ERROR,
    );
  }
  return run(command, args);
}

/** Starts the command; its exit code, or its signal, becomes this process's. */
function run(command, args) {
  const deno = findDeno();
  if (deno === undefined) {
    return refuse(
      `Deno ${optionalDependencies.deno} is missing: npm could not download it, or has none for this platform. Check the connection, delete ${INSTALLED}, and try again.`,
    );
  }
  const env = environment();
  const script = join(ROOT, "scripts", `${command}.ts`);
  downloadPackages(deno, { env, script });
  if (WITH_STACK.includes(command) && !installStack(deno, env)) return 1;
  const child = spawn(deno, ["run", "--allow-all", ...FLAGS, script, ...args], {
    env,
    stdio: "inherit",
  });
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) {
    process.on(signal, () => child.kill(signal));
  }
  child.on("error", ({ message }) => refuse(`Cannot run Deno: ${message}`));
  child.on("exit", (code, signal) => {
    if (code !== null) process.exit(code);
    process.removeAllListeners(signal);
    process.kill(process.pid, signal);
  });
}

/**
 * Downloads all packages of the lock file, the first time, and says so on
 * standard error: it takes seconds, and Deno is told to be quiet. If it fails,
 * the command fails in the same way, and says why.
 */
function downloadPackages(deno, { env, script }) {
  if (existsSync(DOWNLOADED)) return;
  process.stderr.write("Downloading what the commands need, once\n");
  const { status } = spawnSync(deno, ["cache", ...FLAGS, script], {
    env,
    stdio: "ignore",
  });
  if (status !== 0) return;
  try {
    writeFileSync(DOWNLOADED, "");
  } catch {
    // A folder that this user cannot write to: said again the next time.
  }
}

/** Downloads what the local stack is made of, the first time. */
function installStack(deno, env) {
  if (!existsSync(join(STACK, "node_modules"))) {
    say("Downloading Postgres, PostgREST and the Supabase CLI, once");
  }
  const { status } = spawnSync(deno, [
    "install",
    "--quiet",
    "--frozen",
    `--config=${join(STACK, "deno.json")}`,
  ], { env, stdio: ["ignore", "inherit", "inherit"] });
  return status === 0;
}

/** Returns the path of the Deno that npm installed; undefined if it did not. */
function findDeno() {
  try {
    return require("deno/install_api.cjs").runInstall();
  } catch {
    return undefined;
  }
}

/**
 * Returns the environment of Deno. Deno 2.9.6 trusts neither the system's
 * certificates nor SSL_CERT_FILE by itself, and does not know npm's registry.
 */
function environment() {
  const { env } = process;
  const { SSL_CERT_FILE: file, npm_config_registry: registry } = env;
  return {
    ...(file && isFile(file) && { DENO_CERT: file }),
    ...((!file || isFile(file)) && { DENO_TLS_CA_STORE: "mozilla,system" }),
    ...(registry && { NPM_CONFIG_REGISTRY: registry }),
    ...env,
    BILLING_COMMAND: commandLine(),
    INIT_CWD: process.cwd(),
  };
}

function isFile(path) {
  return statSync(path, { throwIfNoEntry: false })?.isFile() ?? false;
}

/** Returns what the user typed before the name of the command. */
function commandLine() {
  if (process.env.npm_command !== "exec") return name;
  const spec = npxSpec() ?? name;
  if (spec === name || spec.startsWith(`${name}@`)) return `npx ${spec}`;
  // Without --yes, npx asks each time whether to install the file. It takes a
  // path that begins with / or ../ for a program.
  return `npx --yes ${/^(?:\/|\.\.\/)/.test(spec) ? "file:" : ""}${spec}`;
}

/** Returns the package that npx was given; it notes that where it installs. */
function npxSpec() {
  try {
    const file = join(INSTALLED, "package.json");
    return JSON.parse(readFileSync(file, "utf8"))._npx.packages[0];
  } catch {
    return undefined;
  }
}

function helpText() {
  const lines = Object.entries(COMMANDS).map(([command, text]) =>
    `  ${command.padEnd(10)} ${text}`
  );
  return `${name} ${version}

Usage: ${commandLine()} <command> [options]

${lines.join("\n")}

Each command has --help.`;
}

function say(text) {
  process.stdout.write(`${text}\n`);
  return 0;
}

function refuse(text, code = 1) {
  process.stderr.write(`${text}\n`);
  process.exitCode = code;
  return code;
}
