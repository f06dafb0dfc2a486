import { execFile, spawn } from "node:child_process";
import { createServer } from "node:net";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { expect, onTestFinished, test } from "vitest";
import { programPath, startHttp, temporaryDataDir, until } from "../support/program.ts";
import { describeWith } from "../support/requirements.ts";

const run = promisify(execFile);

describeWith("fastmcp", "Python's FastMCP client", (python) => {
  const script = fileURLToPath(new URL("fastmcp_client.py", import.meta.url));

  const overHttp = async () => {
    const { url, token = "" } = await startHttp();
    return ["http", url, token];
  };

  test.each(["stdio", "http"])("works over %s", async (transport) => {
    const how =
      transport === "stdio"
        ? ["stdio", process.execPath, programPath, "--data-dir", temporaryDataDir()]
        : await overHttp();
    const { stdout } = await run(python, [script, ...how]);
    expect(JSON.parse(stdout.trim().split("\n").at(-1) ?? "")).toMatchObject({
      tools: expect.arrayContaining(["execute_code", "wait", "interrupt", "read_file", "list_variables"]),
      second: expect.stringContaining("42"),
      listed: true,
      stopped: "interrupted",
      bad: true,
      resource: "hello",
    });
  });
});

describeWith("mcpo", "Open WebUI's mcpo", (mcpo) => {
  test("offers the tools as HTTP endpoints, with state between calls", async () => {
    const port = await freePort();
    const child = spawn(
      mcpo,
      [
        "--port",
        String(port),
        "--host",
        "127.0.0.1",
        "--",
        process.execPath,
        programPath,
        "--data-dir",
        temporaryDataDir(),
      ],
      {
        stdio: "ignore",
      },
    );
    onTestFinished(() => {
      child.kill("SIGTERM");
    });
    const base = `http://127.0.0.1:${port}`;
    await until(
      "mcpo to listen",
      () =>
        fetch(`${base}/openapi.json`).then(
          (answer) => answer.ok,
          () => false,
        ),
      60_000,
    );
    const post = async (tool: string, body: object) => {
      const answer = await fetch(`${base}/${tool}`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify(body),
      });
      return JSON.stringify(await answer.json());
    };
    const first = await post("execute_code", { code: "x = 6" });
    const session_id = /session ([\w-]{16})/.exec(first)?.[1];
    expect(session_id).toBeDefined();
    expect(await post("execute_code", { code: "x * 7", session_id })).toContain("42");
  });
});

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as { port: number };
  await new Promise((resolve) => server.close(resolve));
  return port;
}
