import { testKernel } from "../../contracts/kernel.ts";
import { testPython } from "../../support/pythons.ts";
import { coldKernels } from "./cold-kernels.ts";

for (const which of ["managed", "debian"] as const) {
  const { start } = coldKernels(testPython(which));
  testKernel({ name: `local, ${which}`, start, suicide: "import os; os._exit(3)", looksWhileBusy: true });
}
