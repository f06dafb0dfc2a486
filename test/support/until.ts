type Condition = () => boolean | Promise<boolean>;

const POLL_MS = 10;
/** Less than a test's timeout, so that a failure says what was waited for. */
const LONGEST_MS = 60_000;

/** Waits until a condition holds; fails with what was waited for. The only place where a test passes time. */
export async function until(condition: Condition): Promise<void>;
export async function until(what: string, condition: Condition, timeoutMs?: number): Promise<void>;
export async function until(what: string | Condition, condition = what as Condition, timeoutMs = LONGEST_MS) {
  const deadline = performance.now() + timeoutMs;
  while (!(await condition())) {
    if (performance.now() > deadline) throw new Error(`waited ${timeoutMs} ms for ${what}`);
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
}
