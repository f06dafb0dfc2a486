// Pyodide in a Deno that may do everything: the probes of a case run here with every wall taken away.
// deno run --allow-all bare.mjs PYODIDE_DIR WORKSPACE; one JSON line in, { id, code }, one line out, { id, text }.
const [pyodideDir, workspaceDir] = Deno.args;
const { loadPyodide } = await import(`file://${pyodideDir}/pyodide.mjs`);
const python = await loadPyodide({ indexURL: `${pyodideDir}/` });
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
