/**
 * Listens for Ctrl-C, once: the second one ends the process as it always does.
 *
 * @returns a signal that is aborted by it, and what stops listening
 */
export function interruption(): { signal: AbortSignal; close: () => void } {
  const controller = new AbortController();
  function interrupt() {
    close();
    controller.abort();
  }
  function close() {
    Deno.removeSignalListener("SIGINT", interrupt);
    Deno.removeSignalListener("SIGTERM", interrupt);
  }
  Deno.addSignalListener("SIGINT", interrupt);
  Deno.addSignalListener("SIGTERM", interrupt);
  return { signal: controller.signal, close };
}
