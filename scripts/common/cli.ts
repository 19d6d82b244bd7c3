/**
 * Command lines: one table of options per command gives the values and the
 * text of `--help`.
 *
 * @module
 */
import { parseArgs } from "node:util";
import { closest } from "./closest.ts";
import { print, printError } from "./print.ts";

/** An option in a command's table. */
export interface Option {
  readonly type: "string" | "boolean";
  /** The placeholder of the value in the help text, such as URL. */
  readonly value?: string;
  /** The help text; an option without one is not listed. */
  readonly help?: string;
  readonly default?: string;
}

/** A command line, in the order in which `--help` prints it. */
export interface CommandLine<
  Options extends Record<string, Option> = Record<string, Option>,
> {
  readonly task: string;
  /** How its operands are shown; without it the command takes none. */
  readonly operands?: string;
  readonly summary: string;
  readonly options: Options;
  /** What follows the options: environment, exit codes. */
  readonly details?: string;
}

/** The values of a table of options. */
export type Values<Options extends Record<string, Option>> = {
  readonly [Name in keyof Options]: Options[Name]["type"] extends "boolean"
    ? boolean
    : Options[Name] extends { readonly default: string } ? string
    : string | undefined;
};

/** The command line is wrong; the message says how to correct it. */
export class UsageError extends Error {
  override name = "UsageError";
}

/** The command line asks for help; the message is the help text. */
export class HelpRequest extends Error {
  override name = "HelpRequest";
}

const HELP = { type: "boolean", short: "h", help: "show this text" } as const;

/** Of the help text: its lines, and where the texts of the options begin. */
const LINE_WIDTH = 80;
const TEXT_COLUMN = 23;

/**
 * Parses the arguments of a command.
 *
 * @throws {HelpRequest} For `--help` and `-h`.
 * @throws {UsageError} The message does not repeat the value of an option: it
 * may be a secret.
 */
export function parseCommandLine<const Options extends Record<string, Option>>(
  args: readonly string[],
  command: CommandLine<Options>,
): { values: Values<Options>; operands: readonly string[] } {
  const options: Record<string, Option> = { ...command.options, help: HELP };
  const values = Object.fromEntries(
    Object.entries(options).map((
      [name, option],
    ) => [name, option.type === "boolean" ? false : option.default]),
  );
  const operands: string[] = [];
  const { tokens } = parseArgs({
    args: [...args],
    options,
    strict: false,
    tokens: true,
  });
  for (const token of tokens) {
    if (token.kind === "positional") operands.push(token.value);
    if (token.kind === "option") values[token.name] = valueOf(token, options);
  }
  if (values["help"]) throw new HelpRequest(helpText(command));
  if (operands.length > 0 && command.operands === undefined) {
    throw new UsageError("This command takes options only.");
  }
  return { values: values as Values<Options>, operands };
}

/**
 * Prints why a command ended, and returns its exit code: 0 for help, 2 for a
 * wrong command line, else `failed`.
 */
export function reportEnd(
  error: unknown,
  { failed = 1, out = print, err = printError }: {
    failed?: number;
    out?: (line: string) => void;
    err?: (line: string) => void;
  } = {},
): number {
  const { message } = error as Error;
  if (error instanceof HelpRequest) {
    for (const line of message.split("\n")) out(line);
    return 0;
  }
  const isUsage = error instanceof UsageError;
  err(isUsage ? `${message} See --help.` : message);
  return isUsage ? 2 : failed;
}

function valueOf(
  { name, rawName, value, inlineValue }: {
    name: string;
    rawName: string;
    value: string | undefined;
    inlineValue: boolean | undefined;
  },
  options: Record<string, Option>,
): string | boolean {
  if (!Object.hasOwn(options, name)) {
    const known = Object.keys(options).map((name) => `--${name}`);
    const meant = closest(`--${name}`, known);
    throw new UsageError(
      `Unknown option ${rawName}.` +
        (meant === undefined ? "" : ` Did you mean ${meant}?`),
    );
  }
  const { type, value: placeholder } = options[name]!;
  if (type === "boolean") {
    if (value === undefined) return true;
    throw new UsageError(`${rawName} takes no value.`);
  }
  // `--account-from --apply` is not an account key called --apply.
  if (value === undefined || (!inlineValue && /^-./.test(value))) {
    throw new UsageError(
      `${rawName} needs a value: ${rawName}=${placeholder}.`,
    );
  }
  return value;
}

function helpText(
  { task, operands, summary, options, details }: CommandLine<
    Record<string, Option>
  >,
): string {
  const words = ["deno task", task, operands, "[options]"];
  return [
    summary,
    `Usage: ${words.filter((word) => word !== undefined).join(" ")}`,
    ["Options:", ...Object.entries({ ...options, help: HELP }).map(optionHelp)]
      .filter((text) => text !== "").join("\n"),
    ...(details === undefined ? [] : [details]),
  ].join("\n\n");
}

function optionHelp([name, option]: [string, Option]): string {
  if (option.help === undefined) return "";
  const flag = option.value ? `--${name} ${option.value}` : `--${name}`;
  const text = option.default === undefined
    ? option.help
    : `${option.help} (default: ${option.default})`;
  return helpEntry(flag, text);
}

/** Returns a line of a list in a help text: a name, and its text beside it. */
export function helpEntry(name: string, text: string): string {
  const lines = [""];
  for (const word of text.split(" ")) {
    const line = `${lines.at(-1)} ${word}`.trimStart();
    if (line.length <= LINE_WIDTH - TEXT_COLUMN) lines[lines.length - 1] = line;
    else lines.push(word);
  }
  const head = `  ${name}`.padEnd(TEXT_COLUMN);
  const indented = lines.join(`\n${" ".repeat(TEXT_COLUMN)}`);
  return head.length > TEXT_COLUMN || !head.endsWith(" ")
    ? `${head}\n${" ".repeat(TEXT_COLUMN)}${indented}`
    : head + indented;
}
