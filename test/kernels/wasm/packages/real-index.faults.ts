import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { readDistribution } from "../../../../src/kernels/wasm/packages/build/distribution.ts";
import { createDownloads } from "../../../../src/kernels/wasm/packages/build/downloads.ts";
import { networkEnv } from "../../../../src/kernels/wasm/packages/build/network-env.ts";
import { type Image, linkInto } from "../../../../src/kernels/wasm/packages/packages.ts";
import { findSources } from "../../../../src/kernels/wasm/sources.ts";
import { createLog } from "../../../../src/log.ts";
import { configuredIndex, pipIndex } from "../../../../src/packages/index-address.ts";
import { result, run } from "../../../contracts/kernel.ts";
import { wasmKernels } from "../wasm-kernels.ts";
import { closedUrl, contents, failure, temporaryFolder, testPackages } from "./test-packages.ts";

/** Why the index of this machine cannot be used, or undefined. */
async function obstacle(): Promise<string | undefined> {
  const index = configuredIndex(undefined, process.env) ?? (await pipIndex(process.env));
  if (!index) return "no package index is known: there is no pip";
  const sources = findSources();
  const downloads = createDownloads({
    sources,
    folder: temporaryFolder("downloads"),
    denoDir: temporaryFolder("deno"),
    distributionUrl: readDistribution(sources, undefined).url,
    networkEnv: networkEnv(process.env),
    silentHosts: new Map(),
    log: createLog("silent"),
  });
  downloads.setIndex(index);
  const page = await downloads.fetch(`${index.url.replace(/\/$/, "")}/sympy/`, { page: true });
  await downloads.end();
  if (page.kind === "unreachable") return page.reason.replace(/^[^:]*:\d*:? ?/, "");
  return page.status === 200 ? undefined : `it answered with status ${page.status}`;
}

const reason = await obstacle();
const isRequired = process.env.CELLWRIGHT_REQUIRE === "all";
const title = "packages of the real index";

describe.skipIf(reason && !isRequired)(reason ? `${title} (needs a package index: ${reason})` : title, () => {
  const real = { pyodideBaseUrl: undefined, packageIndex: undefined, env: process.env };
  const packages = testPackages(real);
  const kernels = wasmKernels({ memoryMb: 1024 });
  let image: Image;

  beforeAll(async () => {
    image = await packages.image(["sympy", "networkx", "pydantic", "msgspec", "openpyxl", "plotly"]);
  }, 300_000);

  test.each([
    ["sympy", "import sympy; str(sympy.integrate(sympy.Symbol('x') ** 2))", "'x**3/3'"],
    ["networkx", "import networkx; networkx.shortest_path(networkx.path_graph(4), 0, 3)", "[0, 1, 2, 3]"],
    [
      "pydantic",
      'import pydantic\nclass A(pydantic.BaseModel):\n  n: int\nA.model_validate_json(\'{"n": "3"}\').n',
      "3",
    ],
    ["msgspec", "import msgspec; msgspec.json.decode(b'[1, 2]', type=list[int])", "[1, 2]"],
    [
      "openpyxl",
      "import openpyxl\nw = openpyxl.Workbook(); w.active['A1'] = 7; w.save('a.xlsx')\nopenpyxl.load_workbook('a.xlsx').active['A1'].value",
      "7",
    ],
    ["plotly", "import plotly.graph_objects as go; len(go.Figure(go.Bar(y=[1, 2])).data[0].y)", "2"],
  ])(
    "%s works in a session that was running before it was installed",
    async (_, code, expected) => {
      const { kernel, runDir } = await kernels.start();
      expect(result(await run(kernel, "kept = 1; kept"))).toBe("1");
      mkdirSync(join(runDir, "site"), { recursive: true });
      await linkInto(image, join(runDir, "site"));
      const events = await run(kernel, `${code}`);
      expect(result(events), JSON.stringify(events)).toBe(expected);
      expect(result(await run(kernel, "kept"))).toBe("1");
      await kernel.dispose();
    },
    120_000,
  );

  test("without the distribution, seaborn fails because of numpy, and the next request works", async () => {
    const closed = testPackages({ ...real, pyodideBaseUrl: closedUrl });
    const { message } = await failure(closed.image(["seaborn"]));
    expect(message).toMatch(/^Cannot install seaborn\. Only Pyodide's distribution has numpy/);
    expect(message).toMatch(/needed by seaborn \d/);
    expect(contents(await closed.image(["six"]))).toEqual([expect.stringMatching(/^six .* \(index\)$/)]);
  }, 120_000);
});
