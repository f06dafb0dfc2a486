import { realpathSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { CellwrightError } from "../../errors.ts";

/** Deno runs our host files directly: TypeScript in `src`, compiled JavaScript in `dist`. */
const EXTENSION = import.meta.url.endsWith(".ts") ? ".ts" : ".js";

const denoDir = fileURLToPath(new URL("./deno/", import.meta.url));
const pythonDir = fileURLToPath(new URL("../python/wasm/", import.meta.url));
const preludeDir = fileURLToPath(new URL("../python/prelude/", import.meta.url));

/** Python modules of the snapshot, in import order. */
const pythonModules: [name: string, folder: string][] = [
  ["interrupts", pythonDir],
  ["cell_output", preludeDir],
  ["exception_text", preludeDir],
  ["mime", preludeDir],
  ["value_json", preludeDir],
  ["variables", preludeDir],
  ["text_streams", preludeDir],
  ["imports", preludeDir],
  ["matplotlib_figures", preludeDir],
  ["plotly_summary", preludeDir],
  ["plotly_figures", preludeDir],
  ["plotly_export", preludeDir],
  ["altair_figures", preludeDir],
  ["bokeh_figures", preludeDir],
  ["great_tables_pages", preludeDir],
  ["pil_pictures", preludeDir],
  ["plots", preludeDir],
  ["needs", pythonDir],
  ["output", pythonDir],
  ["showing", pythonDir],
  ["failure", pythonDir],
  ["source", pythonDir],
  ["refusals", pythonDir],
  ["runner", pythonDir],
];

/** Files that run outside the server process, as real paths: Deno's permissions do not follow links. */
export interface Sources {
  denoFile: string;
  pyodideDir: string;
  hostDir: string;
  supervisorFile: string;
  snapshotBuilderFile: string;
  fetcherFile: string;
  installerFile: string;
  pythonFiles: { module: string; file: string }[];
  /** Part of the snapshot's name: a snapshot is valid only for the versions that made it. */
  versions: { deno: string; pyodide: string };
}

export function findSources(): Sources {
  const require = createRequire(import.meta.url);
  const realHostDir = realpathSync(denoDir);
  const pyodidePackage = require.resolve("pyodide/package.json");
  return {
    denoFile: findDeno(require),
    pyodideDir: realpathSync(dirname(pyodidePackage)),
    hostDir: realHostDir,
    supervisorFile: join(realHostDir, `supervisor${EXTENSION}`),
    snapshotBuilderFile: join(realHostDir, `build-snapshot${EXTENSION}`),
    fetcherFile: join(realHostDir, `install/fetch${EXTENSION}`),
    installerFile: join(realHostDir, `install/install${EXTENSION}`),
    pythonFiles: pythonModules.map(([name, folder]) => ({
      module: name,
      file: join(realpathSync(folder), `${name}.py`),
    })),
    versions: {
      deno: require("deno/package.json").version,
      pyodide: require(pyodidePackage).version,
    },
  };
}

/** Deno's binary. The `deno` package only has a Node wrapper script, which would be one more process. */
function findDeno(require: NodeJS.Require): string {
  const target = `${process.platform}-${process.arch}${process.platform === "linux" ? "-glibc" : ""}`;
  try {
    const fromDeno = createRequire(require.resolve("deno/package.json"));
    const folder = dirname(fromDeno.resolve(`@deno/${target}/package.json`));
    return realpathSync(join(folder, process.platform === "win32" ? "deno.exe" : "deno"));
  } catch (cause) {
    throw new CellwrightError(
      "kernel_start_failed",
      `There is no Deno for this machine: \`@deno/${target}\` is not installed.`,
      {
        cause,
        hint:
          "Install again with optional dependencies. WASM kernels run on Linux with glibc (not on Alpine), macOS and " +
          "Windows, on x64 and arm64.",
      },
    );
  }
}
