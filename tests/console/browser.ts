/**
 * A real browser from npm: a build of Chromium that needs no installed browser,
 * no fonts and no libraries but the C library's.
 *
 * @module
 */
import chromium, { inflate } from "@sparticuz/chromium";
import puppeteer, { type Browser } from "puppeteer-core";
import { tmpdir } from "node:os";
import { fileURLToPath } from "node:url";

const PACKAGE = new URL("../bin/", import.meta.resolve("@sparticuz/chromium"));
/** What Chromium needs besides the C library, as the package brings it. */
const LIBRARIES = fileURLToPath(new URL("al2023.tar.br", PACKAGE));

/**
 * Starts a browser with an empty profile and home folder.
 *
 * @throws {Error} If it cannot start, with what is missing. The tests do not skip.
 */
export async function startBrowser(
  { usesOwnFonts }: { usesOwnFonts: boolean },
): Promise<Browser> {
  const home = await Deno.makeTempDir();
  try {
    const [executablePath, libraries] = await Promise.all([
      chromium.executablePath(),
      inflate(LIBRARIES),
    ]);
    const fonts = `${home}/fonts.conf`;
    await Deno.writeTextFile(fonts, fontConfiguration(home));
    return await puppeteer.launch({
      executablePath,
      headless: "shell",
      userDataDir: home,
      // The tests may run as root, and the sandbox needs rights of the kernel.
      args: ["--no-sandbox", "--disable-gpu", "--font-render-hinting=none"],
      env: {
        HOME: home,
        PATH: Deno.env.get("PATH"),
        TMPDIR: tmpdir(),
        // With the package's own font, or with the machine's for a picture.
        ...(usesOwnFonts && { FONTCONFIG_FILE: fonts }),
        LD_LIBRARY_PATH: `${libraries}/lib`,
      },
    });
  } catch (error) {
    throw new Error(
      `Cannot start the browser for the console's tests (@sparticuz/chromium, Linux x64 only): ${
        (error as Error).message
      }\nIf the message names a shared library, install it.`,
      { cause: error },
    );
  }
}

/**
 * Names the folder that the package unpacks its font to. Its own configuration
 * looks in /tmp, and a browser without any font ends.
 */
function fontConfiguration(home: string): string {
  return `<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
  <dir>${tmpdir()}/fonts</dir>
  <cachedir>${home}/fonts-cache</cachedir>
</fontconfig>
`;
}
