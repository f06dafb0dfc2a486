import { testKernel } from "../../../contracts/kernel.ts";
import { describeWith } from "../../../support/requirements.ts";
import { remoteKernels } from "./remote-kernels.ts";

for (const name of ["jupyterServer", "debianJupyterServer"] as const) {
  describeWith(name, name, (python) => {
    const { start } = remoteKernels(python);
    testKernel({ name, start, suicide: "import os; os._exit(3)", looksWhileBusy: true });
  });
}
