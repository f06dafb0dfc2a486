import { testKernel } from "../../contracts/kernel.ts";
import { testPython } from "../../support/pythons.ts";
import { describeWithPythons } from "../../support/requirements.ts";
import { coldKernels } from "./cold-kernels.ts";

describeWithPythons("local", (python) => {
  const { start } = coldKernels(testPython(python));
  testKernel({ name: "cold", start, suicide: "import os; os._exit(3)", looksWhileBusy: true });
});
