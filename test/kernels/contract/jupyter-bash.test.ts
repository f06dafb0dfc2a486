import { testBash } from "../../contracts/bash.ts";
import { describeWith } from "../../support/requirements.ts";
import { serverRequirements } from "../remote/helpers.ts";
import { jupyterKernels } from "../remote/remote-kernels.ts";

for (const { requirement, name } of serverRequirements) {
  describeWith(requirement, `shells of ${name}`, (python) => {
    const kernels = jupyterKernels(python);
    testBash({ name, start: () => kernels.start({ language: "bash" }), maxCellChars: 64 * 1024 * 1024 });
  });
}
