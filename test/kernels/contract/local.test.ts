import { expect, test } from "vitest";
import { testKernel } from "../../contracts/kernel.ts";
import { testPython } from "../../support/pythons.ts";
import { describeWith } from "../../support/requirements.ts";
import { builtFrom, providerKernels } from "../provider-kernels.ts";

/** The default of a session where a Python environment is set up. */
describeWith("localKernels", "local kernels by default", () => {
  const kernels = providerKernels(builtFrom({ kernel: "local", env: testPython("managed") }));

  test("are forked and jailed", async () => {
    const { kernel } = await kernels.start();
    expect(kernel.info.layers).not.toEqual([]);
    expect(kernel.info.notes?.join(" ")).not.toContain("Cold start");
    await kernel.dispose();
  });

  testKernel({ name: "forked and jailed", start: kernels.start, looksWhileBusy: true });
});
