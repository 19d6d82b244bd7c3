/**
 * Returns a text with other versions of the packages that it names, as targets
 * of an import map or in the rows of docs/dependencies.md.
 *
 * @param targets Such as "npm:zod@4.6.7". Those of parts of a package, such as
 *   "npm:zod@4.6.7/mini", do not count.
 */
export function withVersions(text: string, targets: readonly string[]): string {
  const versions = new Map(
    targets.flatMap((target) => {
      const [, name, version] = /^npm:([^/].*)@([^@/]+)$/.exec(target) ?? [];
      return name && version ? [[name, version] as const] : [];
    }),
  );
  const inMap = /(?<="npm:\/?)(?!\/)(@?[^@"]+)@([^/"]+)/g;
  const inRow = /(?<=^\| `)([^`]+)(` +\| )(\S+)/gm;
  return text
    .replaceAll(inMap, (_, name, old) => `${name}@${versions.get(name) ?? old}`)
    .replaceAll(
      inRow,
      (_, name, between, old) => name + between + (versions.get(name) ?? old),
    );
}
