import { realpathSync } from "node:fs";
import { fileURLToPath } from "node:url";

const here = (name: string): string => realpathSync(fileURLToPath(new URL(name, import.meta.url)));

/** Programs that run in a new process: `cold.py` is a kernel, `zygote.py` forks kernels. */
export const kernelDir: string = here("kernel");
export const zygoteDir: string = here("zygote");

/** The folders of the package `_cellwright`, which every kernel must be able to read in its jail. */
export const packageDirs: string[] = [here("prelude"), kernelDir, here("output"), here("commands")];
