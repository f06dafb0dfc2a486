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
