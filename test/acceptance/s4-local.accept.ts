/** mcp-run-python on local kernels: features that Python in WebAssembly lacks, on every machine. */

import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { describeWith } from "../support/requirements.ts";
import { onLocal, startStdio, success } from "./s4-support.ts";
import { imagesOf, textOf } from "./toolset-program.ts";
import { shared } from "./x-support.ts";

const SLOW_MS = 180_000;

describeWith("localKernels", "S4 on local kernels", () => {
  const server = shared((atEnd) => startStdio([...onLocal, "--warm", "1"], { atEnd }));

  test("S4-11, S4-12 numpy's own arrays and numbers", async () => {
    expect(await server().run("import numpy\nnumpy.array([1, 2, 3])")).toBe(success("[\n  1,\n  2,\n  3\n]"));
    const values = "[numpy.float64(1.5), numpy.int64(3), numpy.bool_(True), numpy.matrix([[1]])]";
    expect(await server().run(`import numpy\n${values}`)).toBe(success(JSON.stringify([1.5, 3, true, [[1]]], null, 2)));
  });

  test("S4-13 a pandas frame is its repr", async () => {
    expect(await server().run("import pandas\npandas.DataFrame({'a': [1]})")).toBe(success('"   a\\n0  1"'));
  });

  test("example of the document, with numpy itself", async () => {
    expect(await server().run("\nimport numpy\na = numpy.array([1, 2, 3])\nprint(a)\na\n")).toBe(
      "<status>success</status>\n<output>\n[1 2 3]\n</output>\n<return_value>\n[\n  1,\n  2,\n  3\n]\n</return_value>",
    );
  });

  test("S4-36 a figure is a picture", async () => {
    const reply = await server().call("run_python_code", {
      python_code: "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()",
    });
    expect(textOf(reply)).toBe("<status>success</status>");
    expect(imagesOf(reply)[0]?.subarray(1, 4).toString()).toBe("PNG");
  });

  test(
    "S4-34 with a network: the machine itself, its neighbours and its cloud are refused",
    async () => {
      const reached: string[] = [];
      const web = createServer((request, response) => {
        reached.push(request.url ?? "");
        response.writeHead(302, { location: "http://127.0.0.2/after" }).end();
      });
      await new Promise<void>((resolve) => web.listen(0, "127.0.0.1", resolve));
      onTestFinished(() => void web.close());
      const { port } = web.address() as AddressInfo;
      // Loopback bypasses the proxy by default: in a jail it is the jail's own.
      const ask = (url: string) => `import os, urllib.request
for name in ('no_proxy', 'NO_PROXY'): os.environ.pop(name, None)
try: urllib.request.urlopen('${url}', timeout=20).read()
except urllib.error.HTTPError as error:
    print(error.read().decode())
    raise`;
      const open = await startStdio([...onLocal, "--allow-net"]);
      for (const host of [`127.0.0.1:${port}`, "localhost", "10.0.0.1", "169.254.169.254"]) {
        expect(await open.run(ask(`http://${host}/direct`))).toMatch(
          /^<status>run-error<.*not (allowed|on the public)/s,
        );
      }
      const named = await startStdio([...onLocal, `--allow-net=*,127.0.0.1:${port}`]);
      expect(await named.run(ask(`http://127.0.0.1:${port}/redirected`))).toMatch(/^<status>run-error<.*127\.0\.0\.2/s);
      expect(reached).toEqual(["/redirected"]);
    },
    SLOW_MS,
  );
});
