/**
 * Parses command lines, by a table of options that also makes the text of `--help`, and
 * prints lines.
 */
import "./deno_version.ts";
import { parseArgs } from "node:util";
import { closest } from "./closest.mjs";
import { asTyped } from "./environment.ts";

/** Help texts: "--url URL" takes a value, "--apply" does not. */
type OptionTexts = Readonly<Record<`--${string}`, string>>;

export interface CommandLine<Options extends OptionTexts = OptionTexts> {
  /** The name of the task, and how its operands are written, if it has any. */
  readonly usage: string;
  readonly summary: string;
  readonly options: Options;
  readonly environment?: Readonly<Record<string, string>>;
  readonly details?: string;
  readonly exitCodes?: string;
}

export type Values<Options extends OptionTexts> = {
  readonly [Flag in keyof Options as NameOf<Flag>]?: Flag extends
    `${string} ${string}` ? string : true;
};

type NameOf<Flag> = Flag extends `--${infer Name} ${string}` ? Name
  : Flag extends `--${infer Name}` ? Name
  : never;

export class UsageError extends Error {
  override name = "UsageError";
}

class HelpRequest extends Error {
  override name = "HelpRequest";
}

/** An error message of several lines. No line may begin with text from outside. */
export class FaultInLines extends Error {
  override name = "FaultInLines";
}

const HELP = { "--help": "show this text" };

const TEXT_COLUMN = 23;

/** Returns what parses arguments. No error repeats a value: it may be secret. */
export function commandLine<const Options extends OptionTexts>(
  command: CommandLine<Options>,
) {
  const flags = Object.keys({ ...command.options, ...HELP });
  return (args: readonly string[]) => {
    const { values, positionals: operands } = parse(args, flags);
    if (values["help"]) throw new HelpRequest(helpText(command));
    if (operands.length > 0 && !command.usage.includes(" ")) {
      throw new UsageError("This command takes options only.");
    }
    return { values: values as Values<Options>, operands };
  };
}

/** Control and format characters, line separators and lone surrogates. */
export const HIDDEN = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu;

/**
 * Returns a text that may come from outside with such characters escaped, because a
 * terminal executes them: as in JSON, `\u001b` for ESC, so that a JSON document stays
 * the same document.
 */
export function printable(text: string): string {
  const escape = (unit: string) =>
    `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`;
  return text.replace(HIDDEN, (found) => found.split("").map(escape).join(""));
}

export function wrap(text: string, width: number): readonly string[] {
  return text.match(new RegExp(`\\S.{0,${width - 1}}(?= |$)|\\S+`, "g")) ?? [];
}

export function print(...lines: readonly string[]): void {
  for (const line of lines) console.log(printable(line));
}

export function printError(...lines: readonly string[]): void {
  for (const line of lines) console.error(printable(line));
}

/** Returns the width of the output; 80 if it is no terminal, or one that reports 0. */
export function terminalColumns(): number {
  return Deno.stdout.isTerminal() && Deno.consoleSize().columns || 80;
}

/** Prints why a command ended, and returns its exit code. */
export function reportEnd(
  error: unknown,
  { failed = 1, out = print, err = printError }: {
    failed?: number;
    out?: (line: string) => void;
    err?: (line: string) => void;
  } = {},
): number {
  const { message } = error as Error;
  if (error instanceof UsageError) {
    const isList = message.includes("\n");
    const text = `${message}${isList ? "\n" : " "}See --help.`;
    for (const line of text.split("\n")) err(line);
    return 2;
  }

  const isHelp = error instanceof HelpRequest;
  const hasLines = isHelp || error instanceof FaultInLines;
  const lines = hasLines ? message.split("\n") : [message];
  for (const line of lines) (isHelp ? out : err)(line);
  return isHelp ? 0 : failed;
}

function parse(args: readonly string[], flags: readonly string[]) {
  try {
    return parseArgs({
      args: [...args],
      options: Object.fromEntries(flags.map((flag) => {
        const [name = "", value] = flag.slice("--".length).split(" ");
        const short = name === "help" ? { short: "h" } : {};
        return [name, { type: value ? "string" : "boolean", ...short }];
      })),
      allowPositionals: true,
    });
  } catch (error) {
    const { message } = error as Error;
    const [written = ""] = /--?[^\s',]+(?=['\s])/.exec(message) ?? [];
    throw new UsageError(describeFault(written, flags));
  }
}

function describeFault(written: string, flags: readonly string[]): string {
  const names = flags.map((flag) => flag.split(" ")[0]!);
  const flag = flags[names.indexOf(written)];
  if (flag === written) return `${written} takes no value.`;
  if (flag) return `${written} needs a value: ${flag.replace(" ", "=")}.`;
  const meant = closest(written, names);
  return `Unknown option ${written}.` +
    (meant ? ` Did you mean ${meant}?` : "");
}

function helpText(
  {
    usage,
    summary,
    options,
    environment,
    details,
    exitCodes = "0 if it succeeds, else 1",
  }: CommandLine,
): string {
  const codes = `Exit code: ${exitCodes}; 2 for a wrong command line.`;
  return [
    summary,
    `Usage: ${asTyped(usage)} [options]`,
    `Options:\n${list({ ...options, ...HELP })}`,
    environment && `Environment:\n${list(environment)}`,
    details,
    wrap(codes, 80).join("\n"),
  ].filter((part) => part !== undefined).join("\n\n");
}

function list(texts: Readonly<Record<string, string>>): string {
  return Object.entries(texts).map(([name, text]) => {
    const head = `  ${name}`.padEnd(TEXT_COLUMN);
    const indent = `\n${" ".repeat(TEXT_COLUMN)}`;
    return head + (head.endsWith(" ") ? "" : indent) +
      wrap(text, 80 - TEXT_COLUMN).join(indent);
  }).join("\n");
}
