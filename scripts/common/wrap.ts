const MIN_WIDTH = 16;

/** Returns the lines of a text, wrapped at words. A longer word stays whole. */
export function wrap(text: string, width: number): readonly string[] {
  const most = Math.max(width, MIN_WIDTH);
  return text.match(new RegExp(`\\S.{0,${most - 1}}(?= |$)|\\S+`, "g")) ?? [];
}
