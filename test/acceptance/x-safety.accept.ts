/** What code and clients cannot do to a server and to others, with the native tools. X-45 in toolsets: x-profiles. */

import { describe, expect, test } from "vitest";
import { descendants, startHttp, startStdio, type TestClient } from "../support/program.ts";
import { describeWith } from "../support/requirements.ts";
import { newSession, onLocal, onWasm } from "./x-support.ts";

const bounds = ["--memory-mb", "256", "--disk-mb", "16", "--pids", "64"];
const memoryBomb = "hoard = []\nwhile True: hoard.append(bytearray(b'x') * 10_000_000)";
const diskBomb = "with open('big.bin', 'wb') as file:\n    for _ in range(64): file.write(bytes(1_000_000))";

describe("bombs on WASM kernels", () => {
  test("X-43 exhausting memory, processes or the disk fails with a clear text, and does not affect others", async () => {
    const client = await startStdio({ args: [...onWasm, ...bounds] });
    const neighbour = await newSession(client, "kept = 'unharmed'");
    for (const [code, told] of [
      [memoryBomb, /MemoryError|out of memory/],
      ["import os\nwhile True: os.fork()", /processes|fork|not supported/i],
      [diskBomb, /No space left on device|limit of 16 MB/],
    ] as const)
      await fails(client, { code, told, neighbour });
  });
});

describeWith("localKernels", "bombs on local kernels", () => {
  test("X-43 the same behind the walls of local kernels", async () => {
    const client = await startStdio({ args: [...onLocal, ...bounds] });
    const neighbour = await newSession(client, "kept = 'unharmed'");
    const forkBomb =
      "import os, time\nfor _ in range(300):\n    if os.fork() == 0:\n        time.sleep(60)\n        os._exit(0)";
    for (const [code, told] of [
      [memoryBomb, /MemoryError|memory/],
      [forkBomb, /Resource temporarily unavailable|BlockingIOError|processes/],
      [diskBomb, /No space left on device|File too large|limit of 16 MB/],
    ] as const)
      await fails(client, { code, told, neighbour });
  });
});

async function fails(
  client: TestClient,
  { code, told, neighbour }: { code: string; told: RegExp; neighbour: string },
): Promise<void> {
  const session_id = await newSession(client, "1");
  const bombing = client.run(code, { session_id, timeout_s: 30 });
  const beside = await client.run("kept", { session_id: neighbour });
  expect(beside.structured).toMatchObject({ status: "ok", result: "'unharmed'", notices: [] });
  const bombed = await bombing;
  expect(bombed.structured?.status).toMatch(/^(error|kernel_died)$/);
  expect(bombed.text).toMatch(told);
  await client.call("close_session", { session_id, delete_files: true });
  expect((await client.run("kept", { session_id: neighbour })).structured?.result).toBe("'unharmed'");
}

for (const [kernel, args, suite] of [
  ["WASM", onWasm, describe],
  ["local", onLocal, (title: string, body: () => void) => describeWith("localKernels", title, body)],
] as const) {
  suite(`code against its server, on ${kernel} kernels`, () => {
    test("X-44 the server's secrets cannot be read, nor its output written, nor its tools changed", async () => {
      const secret = "a-secret-of-the-server";
      const client = await startStdio({
        args: [...args, "--auth-token", `${secret}-token`],
        env: { MY_API_KEY: `${secret}-key`, CELLWRIGHT_JUPYTER_TOKEN: `${secret}-jupyter` },
      });
      const before = await client.raw.listTools();
      const search = [
        "import glob, os",
        "found = [str(dict(os.environ))]",
        "for path in glob.glob('/proc/[0-9]*/environ') + glob.glob('/proc/[0-9]*/cmdline'):",
        "    try: found.append(open(path, 'rb').read().decode('utf8', 'replace'))",
        "    except OSError: pass",
        `[text for text in found if ${JSON.stringify(secret.split("").reverse().join(""))}[::-1] in text]`,
      ].join("\n");
      expect((await client.run(search)).structured).toMatchObject({ status: "ok", result: "[]" });

      const message = JSON.stringify({ jsonrpc: "2.0", method: "notifications/tools/list_changed" });
      const forgery = [
        "import os, sys",
        `line = (${JSON.stringify(message)} + "\\n").encode()`,
        "for fd in (1, 2):",
        "    try: os.write(fd, line)",
        "    except OSError: pass",
        "for path in ('/proc/1/fd/1', '/dev/stdout', '/proc/self/fd/1', f'/proc/{os.getppid()}/fd/1'):",
        "    try: open(path, 'wb').write(line)",
        "    except OSError: pass",
      ].join("\n");
      // Whatever happens to a kernel that does this, the connection is not affected.
      const forged: string[] = [];
      client.raw.onerror = (error) => forged.push(String(error));
      client.raw.fallbackNotificationHandler = async ({ method }) => void forged.push(method);
      await client.run(forgery, { timeout_s: 20 });
      const patch = [
        "try:",
        "    from js import JSON",
        "    from pyodide.code import run_js",
        "    run_js('JSON.stringify = () => \"{}\"; Object.prototype.tools = []; globalThis.process = undefined')",
        "except ImportError:",
        "    import json",
        "    json.dumps = lambda *_: '{}'",
      ].join("\n");
      await client.run(patch, { timeout_s: 5 });
      expect(forged).toEqual([]);
      expect(await client.raw.listTools()).toEqual(before);
      expect((await client.run("6 * 7")).structured).toMatchObject({ status: "ok", result: "42" });
    });
  });
}

describe("arguments", () => {
  test("X-45 a missing, an unknown and a mistyped argument are named, in every tool, and start no kernel", async () => {
    const client = await startStdio({ args: onWasm });
    const { tools } = await client.raw.listTools();
    for (const { name, inputSchema } of tools) {
      const properties = Object.entries(inputSchema.properties ?? {}) as [
        string,
        { type?: string; anyOf?: object[] },
      ][];
      const sample = Object.fromEntries(properties.map(([key, { type }]) => [key, sampleOf[type ?? ""] ?? "x"]));
      const required = Object.fromEntries((inputSchema.required ?? []).map((key) => [key, sample[key]]));
      const refused = async (args: object, argument: string) => {
        const reply = await client.call(name, args as Record<string, unknown>);
        expect({ name, args, ...reply }).toMatchObject({
          ...{ name, args, isError: true },
          text: expect.stringContaining(`\`${argument}\``),
        });
      };
      for (const key of inputSchema.required ?? []) {
        const { [key]: _, ...rest } = required;
        await refused(rest, key);
      }
      await refused({ ...required, unheard_of: 1 }, "unheard_of");
      for (const [key, { type }] of properties) await refused({ ...required, [key]: wrongFor(type) }, key);
    }
    expect(descendants(client.pid)).toEqual([]);
    expect((await client.call("list_sessions")).structured).toMatchObject({ total: 0 });
  });
});

const sampleOf: Record<string, unknown> = {
  string: "x",
  number: 1,
  integer: 1,
  boolean: true,
  array: ["x"],
  object: {},
};

/** A value of a type that no argument accepts, or at least not this one. */
function wrongFor(type: string | undefined): unknown {
  return type === "object" ? "text" : { not: "expected" };
}

describe("tenants", () => {
  test("X-48 a session of one client does not exist for another", async () => {
    const program = await startHttp({
      args: [...onWasm, "--auth-token", "ann=the-token-of-ann", "--auth-token", "bob=the-token-of-bob"],
    });
    const [ann, bob] = [
      await program.client("v2 legacy", "the-token-of-ann"),
      await program.client("v2 modern", "the-token-of-bob"),
    ];
    const session_id = await newSession(ann, "secret = 42", { session_name: "plan" });
    await ann.call("write_file", { session_id, path: "a.txt", content: "private" });
    const nobodys = "0123456789abcdef";
    const { tools } = await bob.raw.listTools();
    const more = {
      ...{ code: "secret", path: "a.txt", content: "x", old_text: "private", new_text: "x", name: "secret" },
      ...{ packages: ["x"], host_path: "x" },
    };
    for (const { name, inputSchema } of tools) {
      const properties = Object.keys(inputSchema.properties ?? {});
      if (!properties.includes("session_id")) continue;
      const own = properties.filter((key) => Object.hasOwn(more, key));
      const rest = Object.fromEntries(own.map((key) => [key, more[key as keyof typeof more]]));
      for (const id of [session_id, "plan"]) {
        const guessed = await bob.call(name, { ...rest, session_id: id });
        const unknown = await bob.call(name, { ...rest, session_id: nobodys });
        expect(guessed.isError).toBe(true);
        expect(guessed.text.replaceAll(id, "ID")).toBe(unknown.text.replaceAll(nobodys, "ID"));
      }
    }
    expect((await bob.call("list_sessions")).structured).toMatchObject({ total: 0 });
    await expect(bob.raw.readResource({ uri: `cell://${session_id}/a.txt` })).rejects.toThrow();
    expect((await ann.run("secret", { session_id })).structured?.result).toBe("42");
  });
});
