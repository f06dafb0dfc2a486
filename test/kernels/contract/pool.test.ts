import { afterAll } from "vitest";
import { testKernel } from "../../contracts/kernel.ts";
import { startPoolProgram } from "../../support/pool-program.ts";
import { builtFrom, providerKernels } from "../provider-kernels.ts";

const BY_KIND = "a sandbox's reply has stdout, stderr, pictures and a result, not events in order";
const AT_THE_END = "a sandbox replies when the cell has ended";

const { urls, token } = await startPoolProgram({ count: 2, atEnd: afterAll });
const kernels = providerKernels(builtFrom({ kernel: "pool", poolUrl: urls, poolToken: token }));

/** The protocol of sandboxes reports less than a kernel does. */
testKernel({
  name: "a pool",
  start: kernels.start,
  except: {
    "events come in the order things happened, and done is last and once": BY_KIND,
    "displays can be updated and cleared": BY_KIND,
    "objects are shown in every form they offer": BY_KIND,
    "a silent cell leaves no count and no `_`": "sandboxes have no silent cells",
    "the working directory is the workspace": "files of a sandbox are reached by cells only",
    "10 MB of output arrive whole": "a sandbox leaves out the middle of a long output, and says so",
    "lone surrogates and NUL come through": "a sandbox replies in well-formed text",
    "output of a task left behind is told apart from the next cell's": AT_THE_END,
    "disposing in mid-cell ends the cell with kernel_died, keeping what it printed": AT_THE_END,
    "the death of the interpreter is seen in mid-cell": "a sandbox replaces its interpreter and says so",
  },
});
