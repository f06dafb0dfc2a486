import { describe } from "vitest";
import { testBash } from "../../contracts/bash.ts";
import { describeWithTiers } from "../../support/isolations.ts";
import { builtFrom, providerKernels } from "../provider-kernels.ts";

const language = "bash";

describe("local shells with --jail none", () => {
  const kernels = providerKernels(builtFrom({ kernel: "local", jail: "none" }));
  testBash({ name: "unjailed", start: () => kernels.start({ language }) });
});

describeWithTiers("local shells, isolated", (jail) => {
  const kernels = providerKernels(builtFrom({ kernel: "local", jail }));
  testBash({ name: "jailed", start: () => kernels.start({ language }) });
});
