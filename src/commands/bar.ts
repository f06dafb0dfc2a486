const WIDTH = 24;
/** Without a terminal each update is a new line: print every 10 %. */
const STEPS_WITHOUT_TERMINAL = 10;

/** A progress bar on one line of a terminal; a few lines elsewhere. */
export function showBar(stream: NodeJS.WriteStream): {
  show(state: { fraction: number; message: string }): void;
  end(): void;
} {
  let step = -1;
  let shown = false;
  return {
    show({ fraction, message }) {
      const percent = `${Math.floor(fraction * 100)} %`.padStart(5);
      if (stream.isTTY) {
        const full = Math.round(fraction * WIDTH);
        const line = `${"█".repeat(full)}${"░".repeat(WIDTH - full)} ${percent}  ${message}`;
        stream.write(`\r\u001b[K${line.slice(0, Math.max(20, (stream.columns ?? 80) - 1))}`);
        shown = true;
      } else if (Math.floor(fraction * STEPS_WITHOUT_TERMINAL) > step) {
        step = Math.floor(fraction * STEPS_WITHOUT_TERMINAL);
        stream.write(`${percent}  ${message}\n`);
      }
    },
    end() {
      if (shown) stream.write("\r\u001b[K");
      shown = false;
    },
  };
}
