import { testKernel } from "../contracts/kernel.ts";
import { wasmKernels } from "./wasm-kernels.ts";

const kernels = wasmKernels();

testKernel({ name: "wasm", start: kernels.start, suicide: "import os; os._exit(3)" });
