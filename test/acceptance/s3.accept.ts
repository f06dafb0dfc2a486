/** The load balancer's own tool over real sandboxes with local kernels. Its faults, by scripted sandboxes: s3-faults. */

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { freePort } from "../support/jupyter-server.ts";
import { bearer, startStdio } from "../support/program.ts";
import { describeWith } from "../support/requirements.ts";
import { type Balancer, startBalancer, startPool, startScripted } from "./sandboxes.ts";
import { environment, pictures, shared, sizeOfPng } from "./x-support.ts";

const FENCE = "```";
const plot = "import matplotlib.pyplot as plt\nplt.plot([1, 2, 3])";

describe("what it is", () => {
  test("S3-01 the tool list is the one tool, key by key", async () => {
    const client = await startStdio({ args: ["--toolset", "code-interpreter-lb"] });
    const { tools } = await client.raw.listTools();
    expect(tools).toEqual([
      {
        name: "execute_python",
        description: expect.stringMatching(/^Runs Python code\./),
        inputSchema: {
          type: "object",
          properties: {
            session_id: { type: "string", description: expect.any(String) },
            code: { type: "string", description: expect.any(String) },
            timeout: { type: "integer", description: expect.any(String), default: 30 },
            initialization_images: { type: "array", items: { type: "string" }, description: expect.any(String) },
          },
          required: ["session_id", "code"],
        },
      },
    ]);
    expect(client.raw.getServerVersion()?.name).toBe("code-interpreter");
    const { resources } = await client.raw.listResources();
    expect(resources).toEqual([expect.objectContaining({ uri: "balancer://status", mimeType: "application/json" })]);
  });

  test("S3-02 a call without code, or without a session, is refused by name, and no sandbox is asked", async () => {
    const sandbox = await startScripted();
    const client = await startBalancer([sandbox.url]);
    for (const [args, name] of [
      [{ session_id: "s" }, "code"],
      [{ code: "1" }, "session_id"],
    ] as const) {
      const reply = await client.call("execute_python", args);
      expect(reply).toMatchObject({ isError: true, text: `Input validation error: '${name}' is a required property` });
    }
    expect(sandbox.calls).toEqual([]);
  });

  test("S3-03 another tool is unknown", async () => {
    const client = await startBalancer(["http://127.0.0.1:1"]);
    expect(await client.call("nope")).toMatchObject({ isError: true, text: "Unknown tool: nope" });
  });

  test("S3-15 a time limit that is no whole number of seconds is refused, and no sandbox is asked", async () => {
    const sandbox = await startScripted();
    const client = await startBalancer([sandbox.url]);
    for (const timeout of [0, -1, 1.5, "x", "30", 1e9]) {
      const reply = await client.call("execute_python", { session_id: "s", code: "1", timeout });
      expect({ timeout, ...reply }).toMatchObject({ timeout, isError: true, text: expect.stringContaining("timeout") });
    }
    expect(sandbox.calls).toEqual([]);
  });
});

describeWith("localKernels", "cells in a real sandbox", () => {
  const world = shared(async (atEnd) => {
    const port = await freePort();
    const { urls, env } = await startPool(String(port), ["--kernel", "local", "--env", environment], atEnd);
    return { url: urls[0] ?? "", env, client: await startBalancer(urls, { env, atEnd }) };
  });
  const python: Balancer["python"] = (code, args) => world().client.python(code, args);

  test("S3-04 printed text stands in its fence, after status and time", async () => {
    const { blocks, isError } = await python("print('hi')");
    expect(blocks[0]).toMatch(/^\*\*Execution Status\*\*: success\n\*\*Time\*\*: \d+\.\d{3}s\n$/);
    expect(blocks.slice(1)).toEqual([`**stdout:**\n${FENCE}\nhi\n\n${FENCE}`]);
    expect(isError).toBe(false);
  });

  test("S3-05 a cell that shows nothing is one block", async () => {
    expect((await python("x = 1")).blocks).toEqual([expect.stringContaining("success")]);
  });

  test("S3-06 what is written to stderr alone is no failure", async () => {
    const { blocks, status } = await python("import sys\n_ = sys.stderr.write('careful\\n')");
    expect(status).toBe("success");
    expect(blocks.slice(1)).toEqual([`**stderr:**\n${FENCE}\ncareful\n\n${FENCE}`]);
  });

  test("S3-07 blocks come in order: status, stdout, stderr, pictures, error", async () => {
    const code = [
      "import sys, matplotlib.pyplot as plt",
      "print('out'); print('err', file=sys.stderr)",
      "for line in ([1, 2], [2, 1]): plt.figure(); plt.plot(line); plt.show()",
      "raise ValueError('at the end')",
    ].join("\n");
    const { blocks } = await python(code);
    expect(blocks).toEqual([
      expect.stringMatching(/^\*\*Execution Status\*\*: error\n/),
      `**stdout:**\n${FENCE}\nout\n\n${FENCE}`,
      expect.stringMatching(/^\*\*stderr:\*\*\n```\nerr\n[\s\S]*ValueError: at the end/),
      "[image/png]",
      "[image/png]",
      "**Error**: ValueError: at the end",
    ]);
  });

  test("S3-08 a plot is one picture, shown or not", async () => {
    for (const code of [plot, `${plot}\nplt.show()`]) {
      const reply = await python(code);
      expect(reply.blocks.filter((block) => block.startsWith("["))).toEqual(["[image/png]"]);
      const [bytes] = pictures(reply as never);
      expect(Math.min(...sizeOfPng(bytes as Buffer))).toBeGreaterThan(100);
    }
  });

  test("S3-09 an exception is an error, with its traceback and without escape codes", async () => {
    const { status, stderr, blocks } = await python("undefined_var");
    expect(status).toBe("error");
    expect(stderr).toMatch(/Traceback[\s\S]*NameError/);
    expect(blocks.join("")).not.toContain("\u001b");
    expect(blocks.at(-1)).toBe("**Error**: NameError: name 'undefined_var' is not defined");
  });

  test("S3-10 what cannot be parsed is an error", async () => {
    const { status, error } = await python("def");
    expect(status).toBe("error");
    expect(error).toMatch(/^SyntaxError: /);
  });

  test("S3-11 variables live as long as their session, and in it only", async () => {
    await python("x = [1, 2, 3]", { session_id: "my_work" });
    expect((await python("print(sum(x))", { session_id: "my_work" })).stdout).toBe("6\n");
    expect((await python("print(sum(x))", { session_id: "other/../work" })).error).toMatch(/^NameError/);
  });

  test("S3-12 what cannot be pickled is kept, too", async () => {
    await python("f = (i for i in range(3))");
    expect((await python("print(next(f))")).stdout).toBe("0\n");
  });

  test("S3-13 a cell that takes too long ends at its limit, with what it printed and set", async () => {
    const code = "import time\nprint('a')\ny = 2\ntime.sleep(60)";
    const { status, stdout, stderr, error } = await python(code, { timeout: 1 });
    expect({ status, stdout }).toEqual({ status: "error", stdout: "a\n" });
    expect(stderr).toContain("TimeOutError: code execution timed out");
    expect(error).toContain("TimeOutError");
    expect((await python("print(y)")).stdout).toBe("2\n");
  });

  test("S3-16, S3-22 an image is there by both names, and stays; an empty list is as none", async () => {
    const session_id = "one image";
    const one = await python("print(image_0.size, image.size)", { session_id, initialization_images: [png(30, 20)] });
    expect(one.blocks.slice(1)).toEqual([`**stdout:**\n${FENCE}\n(30, 20) (30, 20)\n\n${FENCE}`]);
    const later = await python("print(image_0.size)", { session_id, initialization_images: [] });
    expect(later.stdout).toBe("(30, 20)\n");
    const names = await python("print([name for name in globals() if 'cellwright' in name.lower()])", { session_id });
    expect(names.stdout).toBe("[]\n");
  });

  test("S3-17 of two images each has its number, and none is `image`", async () => {
    const initialization_images = [png(30, 20), png(10, 40)];
    const args = { session_id: "two images", initialization_images };
    const { stdout, error } = await python("print(image_0.size, image_1.size)\nimage", args);
    expect(stdout).toBe("(30, 20) (10, 40)\n");
    expect(error).toMatch(/^NameError/);
  });

  test("S3-18 a data: address is taken for the image that it holds", async () => {
    const initialization_images = [`data:image/png;base64,${png(7, 9)}`];
    expect((await python("print(image.size)", { session_id: "data", initialization_images })).stdout).toBe("(7, 9)\n");
  });

  test("S3-19 an image that is none is named, and the code is not run", async () => {
    const session_id = "bad image";
    for (const bad of ["%%%", Buffer.from("no image").toString("base64"), png(30, 20).slice(0, 40)]) {
      const initialization_images = [png(30, 20), bad];
      const { blocks } = await python("ran = True", { session_id, initialization_images });
      expect(blocks).toEqual([
        expect.stringMatching(/^\*\*Execution Status\*\*: error\n/),
        "**Error**: initialization_images[1] is not a valid image",
      ]);
    }
    expect((await python("print('ran' in globals())", { session_id })).stdout).toBe("False\n");
  });

  test("S3-20 code in the place of an image is never run", async () => {
    const session_id = "hostile image";
    const hostile = ['")\nowned = True\n("', "');owned=True#", `${png(3, 3)}\n`, '"+str(owned:=1)+"'];
    for (const bad of hostile) {
      const { error } = await python("ran = True", { session_id, initialization_images: [bad] });
      expect(error).toBe("initialization_images[0] is not a valid image");
    }
    const { stdout } = await python("print('ran' in globals(), 'owned' in globals())", { session_id });
    expect(stdout).toBe("False False\n");
  });

  test("S3-21 an image of more than 10 MB is refused, and the code is not run", async () => {
    const session_id = "large image";
    const initialization_images = ["A".repeat(10 * 1024 * 1024 + 4)];
    const { status, error } = await python("ran = True", { session_id, initialization_images });
    expect({ status, error }).toEqual({ status: "error", error: "initialization_images[0] is larger than 10 MB" });
    expect((await python("print('ran' in globals())", { session_id })).stdout).toBe("False\n");
  });

  test("S3-23 IPython's own syntax works", async () => {
    expect((await python("!echo hi")).stdout).toBe("hi\n");
    expect((await python("%pwd")).status).toBe("success");
  });

  test("S3-35 our own sandbox answers the document's request, empty code, and a request of code alone", async () => {
    const ask = async (path: string, body: object) => {
      const headers = { "content-type": "application/json", ...bearer(world().env.CELLWRIGHT_POOL_TOKEN) };
      const init = { method: "POST", body: JSON.stringify(body), headers };
      return (await fetch(world().url + path, init)).json();
    };
    const code = "print('Hello World')\nimport matplotlib.pyplot as plt\nplt.plot([1,2,3])";
    const documented = await ask("/jupyter_sandbox", { session_id: "my_session_123", code, timeout: 30 });
    expect(documented).toMatchObject({
      status: "success",
      execution_time: expect.any(Number),
      output: { stdout: "Hello World\n", stderr: "", images: [expect.stringMatching(/^iVBOR/)] },
    });
    const nothing = { status: "error", error: "No code provided", output: { stdout: "", stderr: "", images: [] } };
    expect(await ask("/jupyter_sandbox", { session_id: "a", code: "", timeout: 5 })).toEqual(nothing);
    await ask("/jupyter_sandbox", { code: "x = 5" });
    const named = { session_id: "JupyterSandboxDefault", code: "print(x)" };
    expect(await ask("/jupyter_sandbox", named)).toMatchObject({ status: "success", output: { stdout: "5\n" } });
    const slow = await ask("/jupyter_sandbox", { code: "import time\ntime.sleep(60)" });
    expect(slow).toMatchObject({ status: "error", error: expect.stringContaining("TimeOutError") });
    expect(await ask("/clear_session", { session_id: "JupyterSandboxDefault" })).toEqual({ status: "success" });
    expect(await ask("/jupyter_sandbox", named)).toMatchObject({
      status: "error",
      error: expect.stringMatching(/^NameError/),
    });
  });

  test("example: the document's three calls, as printed there", async () => {
    const session_id = "demo_session";
    const numbers = [
      ...["", "import numpy as np", "data = np.random.rand(10)"],
      ...['print(f"Mean: {data.mean():.3f}")', 'print(f"Sum: {data.sum():.3f}")', ""],
    ].join("\n");
    const first = await python(numbers, { session_id });
    expect(first.blocks).toEqual([
      expect.stringMatching(/^\*\*Execution Status\*\*: success\n\*\*Time\*\*: \d+\.\d{3}s\n$/),
      expect.stringMatching(/^\*\*stdout:\*\*\n```\nMean: \d\.\d{3}\nSum: \d\.\d{3}\n\n```$/),
    ]);
    const drawing = [
      ...["", "import matplotlib.pyplot as plt", "plt.figure(figsize=(8, 6))", "plt.plot(data, marker='o')"],
      ...["plt.title('Random Data')", "plt.show()", ""],
    ].join("\n");
    const second = await python(drawing, { session_id });
    expect(second.blocks).toEqual([expect.stringContaining("success"), "[image/png]"]);
    const showing = [
      ...["", "# image_0 已自动加载为 PIL.Image 对象", "import matplotlib.pyplot as plt", "plt.imshow(image_0)"],
      ...["plt.title(f'Image size: {image_0.size}')", "plt.show()", ""],
    ].join("\n");
    const initialization_images = [png(64, 48)];
    const third = await python(showing, { session_id: "image_session", initialization_images, timeout: 60 });
    expect(third.blocks).toEqual([expect.stringContaining("success"), "[image/png]"]);
  });
});

/** A PNG of that size, in base64. */
function png(width: number, height: number): string {
  const known = JSON.parse(readFileSync(join(import.meta.dirname, "data/s3-images.json"), "utf8"));
  return known[`${width}x${height}`];
}
