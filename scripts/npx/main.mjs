#!/usr/bin/env node
/** The npm package's program, on Node.js: runs a command with the package's Deno. */
import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { closest } from "../common/closest.mjs";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
/** The folder that npx installs into, and reuses. */
const INSTALLED = dirname(dirname(ROOT));
const require = createRequire(import.meta.url);
const { name, version, optionalDependencies } = require("../../package.json");
const { tasks } = require("../../deno.json");
const COMMANDS = Object.entries(tasks)
  .filter(([command]) => existsSync(scriptOf(command)));

const [command = "--help", ...args] = process.argv.slice(2);
/** So Deno finds the packages that the command imports, or all for `start`. */
const PACKAGES = command === "start"
  ? [`--config=${join(ROOT, "deno.json")}`]
  : [
    "--no-config",
    "--node-modules-dir=none",
    "--unstable-npm-lazy-caching",
    `--import-map=${join(ROOT, "import_map.json")}`,
    `--lock=${join(ROOT, "deno.lock")}`,
  ];

if (["--help", "-h", "help"].includes(command)) {
  print(helpText());
} else if (["--version", "-v"].includes(command)) {
  print(version);
} else if (COMMANDS.some(([name]) => name === command)) {
  run();
} else {
  const meant = closest(command, COMMANDS.map(([name]) => name));
  const hint = meant ? `Did you mean ${meant}? ` : "";
  refuse(`There is no command "${command}". ${hint}See --help.`, 2);
}

/** Starts the command; its exit code, or its signal, becomes this process's. */
function run() {
  const deno = findDeno();
  if (deno === undefined) {
    return refuse(
      `Deno ${optionalDependencies.deno} is missing: npm could not download it. Check the connection, delete ${INSTALLED}, and try again.`,
    );
  }

  // Not quiet: the first time, it downloads what the command needs.
  const options = ["--allow-all", "--frozen", ...PACKAGES];
  const words = ["run", ...options, scriptOf(command), ...args];
  const child = spawn(deno, words, { env: environment(), stdio: "inherit" });

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

function findDeno() {
  try {
    return require("deno/install_api.cjs").runInstall();
  } catch {
    return undefined;
  }
}

/** Deno does not trust the system's certificates, nor know npm's registry, by itself. */
function environment() {
  const { SSL_CERT_FILE: file, npm_config_registry: registry } = process.env;
  return {
    // Deno fails if SSL_CERT_FILE names no file.
    ...(!file || existsSync(file)) && { DENO_TLS_CA_STORE: "mozilla,system" },
    ...registry && { NPM_CONFIG_REGISTRY: registry },
    ...process.env,
    BILLING_COMMAND: commandLine(),
    INIT_CWD: process.cwd(),
  };
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

/** Returns the package that npx was given, which npx stores where it installs. */
function npxSpec() {
  try {
    return require(join(INSTALLED, "package.json"))._npx.packages[0];
  } catch {
    return undefined;
  }
}

function scriptOf(command) {
  return join(ROOT, "scripts", `${command}.ts`);
}

function helpText() {
  const lines = COMMANDS.map(([command, { description }]) =>
    `  ${command.padEnd(10)} ${description}`
  );
  return `${name} ${version}

Usage: ${commandLine()} <command> [options]

${lines.join("\n")}

Each command has --help.`;
}

function print(text) {
  process.stdout.write(`${text}\n`);
}

function refuse(text, code = 1) {
  process.stderr.write(`${text}\n`);
  process.exitCode = code;
}
