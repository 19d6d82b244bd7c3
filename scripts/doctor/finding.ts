/** What a check found; where it is red, also what to do about it. */
export type Finding =
  | { readonly state: "ok" | "skipped"; readonly text: string }
  | { readonly state: "red"; readonly text: string; readonly todo: string };

/** Nothing to do. */
export function ok(text: string): Finding {
  return { state: "ok", text };
}

/** Not looked at, and why. */
export function skipped(text: string): Finding {
  return { state: "skipped", text };
}

/**
 * Something is wrong.
 *
 * @param todo What to do, as a command or a place to look at.
 */
export function red(text: string, todo: string): Finding {
  return { state: "red", text, todo };
}

/** A finding as the one line that it is printed on. */
export function findingLine(
  name: string,
  finding: Finding,
): string {
  const line = `${finding.state.padEnd(8)} ${name.padEnd(15)} ${finding.text}`;
  return finding.state === "red" ? `${line}. ${finding.todo}` : line;
}
