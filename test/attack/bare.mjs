// Pyodide in a Deno with all permissions: runs the probes of a case without any protection, as the control.
// deno run --allow-all bare.mjs PYODIDE_DIR WORKSPACE SNAPSHOT; one JSON line in, { id, code }, one line out, { id, text }.
// Deno's types are not installed.
const { Deno } = /** @type {any} */ (globalThis);
const [pyodideDir, workspaceDir, snapshotFile] = Deno.args;
const { loadPyodide } = await import(`file://${pyodideDir}/pyodide.mjs`);
const python = await startPython();
python.FS.mkdirTree("/workspace");
python.FS.mount(python.FS.filesystems.NODEFS, { root: workspaceDir }, "/workspace");
python.FS.chdir("/workspace");

const answer = (reply) => Deno.stdout.writeSync(new TextEncoder().encode(`\u0001${JSON.stringify(reply)}\n`));
answer({ id: 0, text: "ready" });
let rest = "";
for await (const chunk of Deno.stdin.readable) {
  const lines = (rest + new TextDecoder().decode(chunk)).split("\n");
  rest = lines.pop();
  for (const line of lines) {
    const { id, code } = JSON.parse(line);
    try {
      answer({ id, text: String(await python.runPythonAsync(code)) });
    } catch (error) {
      answer({ id, text: `RAISED ${error.message}` });
    }
  }
}
Deno.exit();

/** Many controls kill it, and a start from a snapshot takes a tenth of the time: the first start creates one. */
async function startPython() {
  const indexURL = `${pyodideDir}/`;
  try {
    return await loadPyodide({ indexURL, _loadSnapshot: Deno.readFileSync(snapshotFile) });
  } catch {
    const first = await loadPyodide({ indexURL, _makeSnapshot: true });
    const unfinished = `${snapshotFile}.${Deno.pid}`;
    Deno.writeFileSync(unfinished, first.makeMemorySnapshot());
    Deno.renameSync(unfinished, snapshotFile);
    return first;
  }
}
