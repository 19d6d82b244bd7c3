/**
 * Command lines: a table of options per command gives the values, with their
 * types, and the text of `--help`.
 *
 * @module
 */
import { parseArgs } from "node:util";
import { closest } from "./closest.ts";
import { asTyped } from "./how_started.ts";
import { print, printError } from "./print.ts";
import { wrap } from "./wrap.ts";

/**
 * The help text of each option, by how the option is written: "--url URL" takes
 * a value, "--apply" does not.
 */
export type OptionTexts = Readonly<Record<`--${string}`, string>>;

/** A command line, in the order in which `--help` prints it. */
export interface CommandLine<Options extends OptionTexts = OptionTexts> {
  /** The name of the task, and how its operands are written, if it has any. */
  readonly usage: string;
  readonly summary: string;
  readonly options: Options;
  /** The text of each environment variable. */
  readonly environment?: Readonly<Record<string, string>>;
  readonly details?: string;
}

/** The values of the options that are given, by their names without dashes. */
export type Values<Options extends OptionTexts> = {
  readonly [Flag in keyof Options as NameOf<Flag>]?: Flag extends
    `${string} ${string}` ? string : true;
};

type NameOf<Flag> = Flag extends `--${infer Name} ${string}` ? Name
  : Flag extends `--${infer Name}` ? Name
  : never;

/** The command line is wrong; the message says how to correct it. */
export class UsageError extends Error {
  override name = "UsageError";
}

/** The command line asks for help; the message is the help text. */
export class HelpRequest extends Error {
  override name = "HelpRequest";
}

const HELP = { "--help": "show this text" };

/** Of the help text: the longest line, and where texts of options begin. */
const LINE_WIDTH = 80;
const TEXT_COLUMN = 23;

/**
 * Parses the arguments of a command.
 *
 * @throws {HelpRequest} For `--help` and `-h`.
 * @throws {UsageError} The message does not repeat the value of an option: it
 * may be a secret.
 */
export function parseCommandLine<const Options extends OptionTexts>(
  args: readonly string[],
  command: CommandLine<Options>,
): { values: Values<Options>; operands: readonly string[] } {
  const flags = new Map(
    Object.keys({ ...command.options, ...HELP })
      .map((flag) => [flag.split(" ")[0]!, flag]),
  );
  const { tokens } = parseArgs({
    args: [...args],
    options: Object.fromEntries(
      Array.from(flags, ([name, flag]) => [name.slice(2), {
        type: flag === name ? "boolean" : "string",
        ...(name === "--help" && { short: "h" }),
      }]),
    ),
    strict: false,
    tokens: true,
  });
  const values: Record<string, string | true> = {};
  const operands: string[] = [];
  for (const token of tokens) {
    if (token.kind === "positional") operands.push(token.value);
    if (token.kind === "option") values[token.name] = valueOf(token, flags);
  }
  if (values["help"]) throw new HelpRequest(helpText(command));
  if (operands.length > 0 && !command.usage.includes(" ")) {
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
    /** With its dashes: "-x". */
    rawName: string;
    value: string | undefined;
    inlineValue: boolean | undefined;
  },
  flags: ReadonlyMap<string, string>,
): string | true {
  const written = `--${name}`;
  const flag = flags.get(written);
  if (flag === undefined) {
    const meant = closest(rawName, [...flags.keys()]);
    throw new UsageError(
      `Unknown option ${rawName}.` + (meant ? ` Did you mean ${meant}?` : ""),
    );
  }
  if (flag === written) {
    if (value === undefined) return true;
    throw new UsageError(`${written} takes no value.`);
  }
  // `--account-from --apply` is not an account key called --apply.
  if (value === undefined || (!inlineValue && /^-./.test(value))) {
    throw new UsageError(
      `${written} needs a value: ${flag.replace(" ", "=")}.`,
    );
  }
  return value;
}

function helpText(
  { usage, summary, options, environment, details }: CommandLine,
): string {
  return [
    summary,
    `Usage: ${asTyped(usage)} [options]`,
    `Options:\n${list({ ...options, ...HELP })}`,
    environment && `Environment:\n${list(environment)}`,
    details,
  ].filter((part) => part !== undefined).join("\n\n");
}

function list(texts: Readonly<Record<string, string>>): string {
  return Object.entries(texts).map(([name, text]) => {
    const head = `  ${name}`.padEnd(TEXT_COLUMN);
    const indent = `\n${" ".repeat(TEXT_COLUMN)}`;
    return head + (head.endsWith(" ") ? "" : indent) +
      wrap(text, LINE_WIDTH - TEXT_COLUMN).join(indent);
  }).join("\n");
}
