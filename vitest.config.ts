import { defineConfig } from "vitest/config";
import { SkippedReporter } from "./test/support/skipped-reporter.ts";

export default defineConfig({
  test: {
    include: ["test/**/*.test.ts"],
    globalSetup: "test/support/first-start.ts",
    // Real child processes start in most suites: a loaded machine needs room, a hang still ends.
    testTimeout: 60_000,
    hookTimeout: 120_000,
    // Twice what the smallest machine has processors: half of the time is spent waiting for cells.
    maxWorkers: 4,
    reporters: ["default", new SkippedReporter()],
  },
});
