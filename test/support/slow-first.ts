import { BaseSequencer, type TestSpecification } from "vitest/node";

/** Slow test files, which mostly wait. If they started last, the whole run would wait for them. */
const slow = [
  "e2e/long-cells",
  "e2e/cells",
  "e2e/clients",
  "kernels/wasm/packages/images",
  "e2e/packages",
  "kernels/remote/faults/workspace",
  "acceptance/x-long-cells",
  "acceptance/x-profiles-long",
  "acceptance/s1a-life",
  "acceptance/s4",
  "acceptance/s0",
  "acceptance/s2",
];

export class SlowFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    const isSlow = ({ moduleId }: TestSpecification) => slow.some((name) => moduleId.includes(`/test/${name}`));
    return [...sorted.filter(isSlow), ...sorted.filter((file) => !isSlow(file))];
  }
}
