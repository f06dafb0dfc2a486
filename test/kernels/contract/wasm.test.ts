import { testKernel } from "../../contracts/kernel.ts";
import { builtFrom, providerKernels } from "../provider-kernels.ts";

const kernels = providerKernels(builtFrom({ kernel: "wasm" }));
testKernel({ name: "WASM", start: kernels.start });
