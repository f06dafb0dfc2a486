import { testKernel } from "../../contracts/kernel.ts";
import { testPython } from "../../support/pythons.ts";
import { describeWithPythons } from "../../support/requirements.ts";
import { builtFrom, providerKernels } from "../provider-kernels.ts";

describeWithPythons("local kernels with --jail none", (python) => {
  const kernels = providerKernels(builtFrom({ kernel: "local", env: testPython(python), jail: "none" }));
  testKernel({ name: "unjailed", start: kernels.start, looksWhileBusy: true });
});
