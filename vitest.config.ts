import { defineConfig } from "vitest/config";
import { SkippedReporter } from "./test/support/skipped-reporter.ts";
import { SlowFirst } from "./test/support/slow-first.ts";

export default defineConfig({
  test: {
    include: ["test/**/*.test.ts"],
    globalSetup: "test/support/first-start.ts",
    // Real child processes start in most suites: a loaded machine needs room, a hang still ends.
    testTimeout: 60_000,
    hookTimeout: 120_000,
    // One more than the smallest machine has processors: much of the time is spent waiting for cells.
    maxWorkers: 3,
    sequence: { sequencer: SlowFirst },
    reporters: ["default", new SkippedReporter()],
  },
});
