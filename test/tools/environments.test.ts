import { expect, test } from "vitest";
import type { Environment } from "../../src/kernels/kernel.ts";
import { createFakeProvider } from "../support/fake-kernel.ts";
import { createWorld } from "./support.ts";

const analysis: Environment = {
  name: "analysis",
  kind: "venv",
  path: "/home/u/envs/analysis",
  python: "3.12.1",
  packages: ["numpy 2.4.6", "pandas 3.1.1"],
  isDefault: true,
};
const bare: Environment = {
  name: "bare",
  kind: "conda",
  path: "/opt/conda/envs/bare",
  packages: [],
  obstacle: "It has no ipykernel. Install it with `mamba install ipykernel`.",
};

test("list_environments shows name, kind, Python, state, path, packages and what to do", async () => {
  const provider = { ...createFakeProvider(), environments: async () => [analysis, bare] };
  const { text } = await createWorld({ provider }).call("list_environments");
  expect(text).toBe(
    [
      "name                kind   Python  state      path",
      "analysis (default)  venv   3.12.1  ready      /home/u/envs/analysis",
      "bare                conda  –       not ready  /opt/conda/envs/bare",
      "",
      "analysis: numpy 2.4.6, pandas 3.1.1",
      "",
      "bare: It has no ipykernel. Install it with `mamba install ipykernel`.",
    ].join("\n"),
  );
});

test("list_environments says so where there is only WASM", async () => {
  const { text } = await createWorld().call("list_environments");
  expect(text).toContain("all sessions run in WebAssembly");
});

test("list_environments tells clients over HTTP no path of this machine", async () => {
  const byPath = { ...analysis, name: "/home/u/other/analysis", isDefault: false };
  const chosen = { ...analysis, name: "/home/u/envs/analysis" };
  const broken = { ...bare, obstacle: "`/opt/conda/envs/bare/bin/python` is not there." };
  const provider = { ...createFakeProvider(), environments: async () => [chosen, byPath, broken] };
  const { text, structuredContent } = await createWorld({ provider, options: { structured: true } }).call(
    "list_environments",
    {},
    { local: false },
  );
  expect(text).toBe(
    [
      "name                kind   Python  state",
      "analysis (default)  venv   3.12.1  ready",
      "bare                conda  –       not ready",
      "",
      "analysis: numpy 2.4.6, pandas 3.1.1",
      "",
      "bare: Not ready. `cellwright env list` on the server says why.",
    ].join("\n"),
  );
  expect(JSON.stringify(structuredContent ?? {})).not.toMatch(/home|opt|"path"/);
});
