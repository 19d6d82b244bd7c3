/** Between the first event of a save and the last one. */
const DEBOUNCE_MS = 100;

const SOURCES = /\.(?:ts|tsx|js|mjs|json|sql)$|\/\.env$/;

/**
 * Calls `onChange` after a source file or an `.env` below a folder has changed.
 * Changes during a call lead to one more call after it.
 */
export function watchFiles(
  folder: string,
  onChange: () => Promise<void>,
): Disposable {
  const watcher = Deno.watchFs(folder);
  let timer: ReturnType<typeof setTimeout> | undefined;
  let isBusy = false;
  let isWanted = false;

  async function work() {
    isWanted = true;
    if (isBusy) return;
    isBusy = true;
    while (isWanted) {
      isWanted = false;
      await onChange();
    }
    isBusy = false;
  }

  async function watch() {
    for await (const { kind, paths } of watcher) {
      if (kind === "access" || !paths.some((one) => SOURCES.test(one))) {
        continue;
      }
      clearTimeout(timer);
      timer = setTimeout(work, DEBOUNCE_MS);
    }
  }

  watch();
  return {
    [Symbol.dispose]: () => {
      clearTimeout(timer);
      watcher.close();
    },
  };
}

/**
 * As {@linkcode watchFiles}, or calls `onFault` if the system refuses: on Linux,
 * editors may have used up what a user may watch.
 */
export function tryToWatch(
  folder: string,
  onChange: () => Promise<void>,
  onFault: (message: string) => void,
): Disposable {
  try {
    return watchFiles(folder, onChange);
  } catch (error) {
    onFault((error as Error).message);
    return { [Symbol.dispose]: () => {} };
  }
}
