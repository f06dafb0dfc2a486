import { expect, test } from "vitest";
import { testKernel } from "../../contracts/kernel.ts";
import { describeWithTiers } from "../../support/isolations.ts";
import { testEnvironment } from "../../support/pythons.ts";
import { describeWith } from "../../support/requirements.ts";
import { builtFrom, providerKernels } from "../provider-kernels.ts";

describeWith("localKernels", "local kernels", () => {
  describeWithTiers("of an environment that only the caller named, isolated", (jail) => {
    const kernels = providerKernels(builtFrom({ kernel: "local", allowEnvPaths: true, jail }));
    const start = () => kernels.start({ env: testEnvironment("managed") });

    test("say why they were not forked", async () => {
      const { kernel } = await start();
      expect(kernel.info.notes?.join(" ")).toContain("vouch");
      await kernel.dispose();
    });

    testKernel({ name: "cold and jailed", start, looksWhileBusy: true });
  });
});
