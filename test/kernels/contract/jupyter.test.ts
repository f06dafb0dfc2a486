import { testKernel } from "../../contracts/kernel.ts";
import { describeWith } from "../../support/requirements.ts";
import { serverRequirements } from "../remote/helpers.ts";
import { jupyterKernels } from "../remote/remote-kernels.ts";

for (const { requirement, name } of serverRequirements) {
  describeWith(requirement, `kernels of ${name}`, (python) => {
    const kernels = jupyterKernels(python);
    testKernel({ name, start: kernels.start, looksWhileBusy: true });
  });
}
