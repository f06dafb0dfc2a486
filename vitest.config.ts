import { defineConfig } from "vitest/config";
import { SkippedReporter } from "./test/support/skipped-reporter.ts";
import { SlowFirst } from "./test/support/slow-first.ts";

/** The contract on the two kinds of kernel that most sessions get; part of `npm test`. */
const contract = ["contract/wasm", "contract/local", "wasm/kernel"].map((name) => `test/kernels/${name}.test.ts`);
/** Interpreters, sandboxes and browsers: `npm run test:kernels`. */
const kernels = [
  "isolation",
  "browser",
  "kernels/bash",
  "kernels/contract",
  "kernels/local",
  "kernels/plots",
  "kernels/remote",
  "kernels/wasm",
];
const ofKernels = kernels.map((folder) => `test/${folder}/**/*.test.ts`);
/** The built program, as clients start it: `npm run test:program`. */
const program = ["e2e/**/*", "kernels/pool/**/*", "kernels/contract/pool", "commands/**/*"].map(
  (name) => `test/${name}.test.ts`,
);
/** Interpreters' folders have tests, too, that start none. */
const light = ["ring", "interrupts", "planted-links"].map((name) => `test/kernels/wasm/${name}.test.ts`);

/** Files share the modules of a worker: what is under test runs in other processes. */
const isolate = false;

/** By cost. Each is a project of its own: `vitest run --project NAME`. */
const suites: Record<string, { include: string[]; exclude?: string[]; isolate?: boolean; maxConcurrency?: number }> = {
  unit: { include: ["test/**/*.test.ts"], exclude: [...contract, ...ofKernels, ...program] },
  light: { include: light },
  contract: { include: contract },
  kernels: { include: ofKernels, exclude: [...contract, ...light, ...program], isolate },
  program: { include: program, isolate },
  faults: { include: ["test/**/*.faults.ts"], isolate },
  // Tests that run at the same time start a server each, some with a Jupyter server beside it.
  acceptance: { include: ["test/acceptance/**/*.accept.ts"], maxConcurrency: 3, isolate },
};

export default defineConfig({
  test: {
    globalSetup: "test/support/first-start.ts",
    // Only for a hang to end. Some tests start five servers, and a machine may be ten times as slow as it was.
    testTimeout: 180_000,
    hookTimeout: 180_000,
    // `expect.poll` waits for an event, as `test/support/until.ts` does, and as patiently.
    expect: { poll: { timeout: 60_000 } },
    // One more than the smallest machine has processors: much of the time is spent waiting for cells.
    maxWorkers: 3,
    sequence: { sequencer: SlowFirst },
    reporters: ["default", new SkippedReporter()],
    projects: Object.entries(suites).map(([name, suite]) => ({ extends: true as const, test: { name, ...suite } })),
  },
});
