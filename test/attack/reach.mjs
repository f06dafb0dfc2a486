// Beyond the numbered cases: ways through JavaScript, nested workers, and the files that other sessions start from.
import { createHash } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { breakOut, GOT, subWorker } from "./break-out.mjs";
import { expect, js, proves } from "./case.mjs";
import { pyodideDir } from "./control.mjs";

const q = JSON.stringify;

const x1 = breakOut({
  id: "X1",
  what: "from Python to JavaScript and Deno without the usual doors",
  ways: ({ flagFile }) => {
    const read = `return Deno.readTextFileSync(${q(flagFile)})`;
    return {
      "js.Function": `#py\nimport js\njs.Function.new(${q(read)})()`,
      "js.eval": `#py\nimport js\njs.eval(${q(`Deno.readTextFileSync(${q(flagFile)})`)})`,
      "js.Deno": `#py\nimport js\njs.Deno.readTextFileSync(${q(flagFile)})`,
      "js.process": `#py\nimport js\njs.process.getBuiltinModule("fs").readFileSync(${q(flagFile)}, "utf8")`,
      "constructor of pyodide_js": `#py\nimport pyodide_js\npyodide_js.constructor.constructor(${q(read)})()`,
      "constructor of FS": `#py\nimport pyodide_js\npyodide_js.FS.open.constructor(${q(read)})()`,
      "a registered module": `#py\nimport pyodide_js, js\npyodide_js.registerJsModule("stolen", js.globalThis)\nimport stolen\nstolen.Deno.readTextFileSync(${q(flagFile)})`,
      "import data:": `return (await import("data:text/javascript," + encodeURIComponent(${q(`export default Deno.readTextFileSync(${q(flagFile)})`)}))).default`,
      "import blob:": `return (await import(URL.createObjectURL(new Blob([${q(`export default Deno.readTextFileSync(${q(flagFile)})`)}], { type: "text/javascript" })))).default`,
    };
  },
  hopes: ({ flagFile }) => ({
    "Deno's own context": `return Deno[Deno.internal].core.evalContext("Deno.readTextFileSync(" + ${q(q(flagFile))} + ")", "ext:x")[0]`,
    "an error's stack": `let Main; Error.prepareStackTrace = (_, frames) => { Main = frames.map((f) => f.getFunction?.()); }; new Error().stack; delete Error.prepareStackTrace; return Main?.some(Boolean) && "functions seen"`,
    AsyncFunction: `return await (async () => {}).constructor(${q(`return Deno.readTextFileSync(${q(flagFile)})`)})()`,
  }),
});

const x2 = breakOut({
  id: "X2",
  what: "sub-workers: nested, of node, from blobs, with rights asked for",
  ways: ({ flagFile }) => {
    const read = `postMessage(Deno.readTextFileSync(${q(flagFile)}))`;
    return {
      "data:": subWorker(read),
      inherit: subWorker(read, ', deno: { permissions: "inherit" }'),
      "read: inherit": subWorker(read, ', deno: { permissions: { read: "inherit" } }'),
      nested: subWorker(
        `const w = new Worker("data:text/javascript," + encodeURIComponent(${q(read)}), { type: "module" }); w.onmessage = (e) => postMessage(e.data); w.onerror = (e) => { e.preventDefault(); postMessage(e.message); }`,
      ),
      "blob:": `return await new Promise((r) => { const w = new Worker(URL.createObjectURL(new Blob([${q(read)}], { type: "text/javascript" })), { type: "module" }); w.onmessage = (e) => r(e.data); w.onerror = (e) => { e.preventDefault(); r(e.message); }; })`,
      "node:worker_threads": `const { Worker } = await import("node:worker_threads"); return await new Promise((r) => { const w = new Worker(${q(`require("node:worker_threads").parentPort.postMessage(String(require("node:fs").readFileSync(${q(flagFile)})))`)}, { eval: true }); w.on("message", r); w.on("error", (e) => r(e.message)); })`,
    };
  },
  hopes: ({ flagFile }) => {
    const read = `postMessage(Deno.readTextFileSync(${q(flagFile)}))`;
    return {
      "read: all": subWorker(read, ", deno: { permissions: { read: true } }"),
      "read: the root": subWorker(read, ', deno: { permissions: { read: ["/"] } }'),
      "write: all": subWorker(
        `Deno.writeTextFileSync(${q(`${flagFile}.sub`)}, "x"); postMessage(${GOT})`,
        ", deno: { permissions: { write: true } }",
      ),
    };
  },
});

const x3 = {
  id: "X3",
  class: "S5",
  what: "change what other sessions start from: Pyodide, host files, snapshot, Deno",
  async probe(stage) {
    const before = fingerprint();
    for (const wall of stage.walls) {
      const server = await stage.server(wall);
      const session = await stage.session(server);
      const cache = join(server.dataDir, "cache");
      const places = [
        "/cell/host/worker.js",
        "/cell/snapshot",
        "/cell/site/x.pth",
        "/cell/pyodide/x",
        "/cell/deno-dir/x",
        "/cell/x",
        cache,
      ];
      const others = [
        join(pyodideDir, "python_stdlib.zip"),
        join(pyodideDir, "planted"),
        new URL("../../dist/kernels/wasm/deno/worker.js", import.meta.url).pathname,
      ];
      for (const path of [...places, ...others]) {
        for (const way of [
          "Deno.openSync(P, { append: true }).close()",
          "Deno.openSync(P, { write: true, create: true }).close()",
          "Deno.renameSync(P, P + 2)",
          "Deno.chmodSync(P, 0o777)",
        ]) {
          const reply = await session.run(js(`const P = ${q(path)}; ${way}; return ${GOT}`));
          expect(!reply.text.includes("GOT-THROUGH"), `${way} on ${path} with --jail ${wall}`);
        }
      }
    }
    expect(fingerprint() === before, "a file that kernels start from has changed");
  },
  async control(stage) {
    const folder = join(stage.folder, "scratch");
    mkdirSync(folder, { recursive: true });
    const text = await stage.bare.run(
      js(`Deno.writeTextFileSync(${q(join(folder, "worker.js"))}, "x"); return ${GOT}`),
    );
    proves(text.includes("GOT-THROUGH"), text);
    return "a bare kernel writes beside its code";
  },
};

function fingerprint() {
  const hash = createHash("sha256");
  for (const name of readdirSync(pyodideDir).sort())
    hash.update(name).update(name.endsWith(".mjs") ? readFileSync(join(pyodideDir, name)) : "");
  return hash.digest("hex");
}

export default [x1, x2, x3];
