// Run by Deno: plain Pyodide, without a memory snapshot, to its first result.
const [pyodideDir] = Deno.args;
const { loadPyodide } = await import(`file://${pyodideDir}/pyodide.mjs`);
const python = await loadPyodide({ indexURL: `${pyodideDir}/` });
if (python.runPython("1 + 1") !== 2) Deno.exit(1);
