import type { Reporter, TestModule, Vitest } from "vitest/node";

/** Lists skipped suites at the end of a run: a suite's title has the reason (requirements.ts). */
export class SkippedReporter implements Reporter {
  #filtered = false;

  onInit(vitest: Vitest): void {
    this.#filtered = vitest.config.testNamePattern !== undefined;
  }

  onTestRunEnd(modules: readonly TestModule[]): void {
    if (this.#filtered) return;
    const names = modules.flatMap((module) => [...namesOfSkipped(module.children)]);
    if (names.length > 0) console.log(`\nSkipped:\n${names.map((name) => `  ${name}`).join("\n")}`);
  }
}

function* namesOfSkipped(children: TestModule["children"]): Generator<string> {
  for (const child of children) {
    if (child.options.mode === "skip") yield `${child.module.relativeModuleId} > ${child.fullName}`;
    else if (child.type === "suite") yield* namesOfSkipped(child.children);
  }
}
