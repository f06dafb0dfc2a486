import { BaseSequencer, type TestSpecification } from "vitest/node";

/** Files that take long, mostly by waiting. Begun last, they would keep everybody waiting at the end. */
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
