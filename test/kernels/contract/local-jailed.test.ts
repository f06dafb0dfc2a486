import { testKernel } from "../../contracts/kernel.ts";
import { describeWithTiers } from "../../support/isolations.ts";
import { testPython } from "../../support/pythons.ts";
import { describeWith } from "../../support/requirements.ts";
import { builtFrom, providerKernels } from "../provider-kernels.ts";

describeWith("localKernels", "local kernels", () => {
  describeWithTiers("of a vouched environment, isolated", (jail) => {
    const kernels = providerKernels(builtFrom({ kernel: "local", env: testPython("managed"), jail }));
    testKernel({ name: "forked and jailed", start: kernels.start, looksWhileBusy: true });
  });
});
