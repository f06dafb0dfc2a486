import { expect, test } from "vitest";
import { testKernel } from "../contracts/kernel.ts";
import { describeWithIsolations } from "../support/isolations.ts";
import { describeWith } from "../support/requirements.ts";
import { localKernels, managed } from "./tier-kernels.ts";

describeWith("localKernels", "local kernels", () => {
  describeWithIsolations("started cold, isolated", (isolation) => {
    const start = localKernels(isolation, { named: managed });

    test("say why they were not forked", async () => {
      const { kernel } = await start("python");
      expect(kernel.info.notes?.join(" ")).toContain("vouch");
      await kernel.dispose();
    });

    testKernel({ name: "cold", start: () => start("python"), suicide: "import os; os._exit(3)", looksWhileBusy: true });
  });
});
