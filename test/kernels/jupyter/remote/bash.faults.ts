import { shellKernel } from "../../../../src/kernels/jupyter/remote/bash.ts";
import { testBash } from "../../../contracts/bash.ts";
import { describeWith } from "../../../support/requirements.ts";
import { remoteKernels } from "./remote-kernels.ts";

for (const name of ["jupyterServer", "debianJupyterServer"] as const) {
  describeWith(name, name, (python) => {
    const remote = remoteKernels(python);
    const start = async () => {
      const { kernel, workspaceDir } = await remote.start({}, "bash");
      return { kernel: shellKernel(kernel), workspaceDir };
    };
    testBash({ name, start, maxCellChars: 64 * 1024 * 1024 });
  });
}
