import type { IncomingHttpHeaders } from "node:http";
import { expect, onTestFinished, test } from "vitest";
import { createPoolProvider, type PoolConfig } from "../../../src/kernels/pool/provider.ts";
import { createLog } from "../../../src/log.ts";
import { run } from "../../contracts/kernel.ts";
import { startFakeSandbox, success } from "../../support/fake-sandbox.ts";

async function startProvider(config: Partial<PoolConfig>) {
  const sandbox = await startFakeSandbox();
  const seen: IncomingHttpHeaders[] = [];
  sandbox.answer = (call, request, response) => {
    seen.push(request.headers);
    success({})(call, request, response);
  };
  const provider = await createPoolProvider({
    urls: [sandbox.url],
    coolDownMs: 1_000,
    log: createLog("silent"),
    ...config,
  });
  onTestFinished(() => provider.dispose());
  let count = 0;
  /** The session's name as the sandbox receives it. */
  const nameFor = async (owner: string | undefined, sessionName: string) => {
    count += 1;
    const { signal } = new AbortController();
    const slot = { sessionId: `s${count}`, workspaceDir: "", runDir: "", signal };
    await run(await provider.start({ language: "python" }, { ...slot, owner, sessionName }), "1");
    return String(sandbox.calls.findLast(({ path }) => path === "/jupyter_sandbox")?.body.session_id);
  };
  return { nameFor, seen };
}

test("sandboxes know sessions of two tenants by two names, also where they are sent", async () => {
  const { nameFor } = await startProvider({ plainNames: true });
  const [ann, bob] = [await nameFor("ann", "report"), await nameFor("bob", "report")];
  expect(ann).toMatch(/^tenant-[0-9a-f]{32}$/);
  expect(ann).not.toBe(bob);
  expect(await nameFor("ann", "report")).toBe(ann);
  expect(await nameFor("ann", "other")).not.toBe(ann);
  // No name that one tenant chooses can equal one of another tenant: the two parts are separated.
  expect(await nameFor('ann","re', 'port"')).not.toBe(ann);
});

test("the local owner's names stay as they are, so that other clients can share them", async () => {
  const { nameFor } = await startProvider({ plainNames: true });
  expect(await nameFor("local", "report")).toBe("report");
  expect(await nameFor(undefined, "report")).toBe("report");
});

test("natively no name is sent at all", async () => {
  const { nameFor } = await startProvider({});
  expect(await nameFor("ann", "report")).toMatch(/^s1-[0-9a-f]{12}$/);
});

test.runIf(process.platform === "linux")("the pool's own token goes to processes of this user alone", async () => {
  const { nameFor, seen } = await startProvider({ ownToken: "the-pools-own-token" });
  await nameFor(undefined, "a");
  expect(seen[0]?.authorization).toBe("Bearer the-pools-own-token");
  const trusting = await startProvider({ ownToken: "the-pools-own-token", anyListener: true });
  await trusting.nameFor(undefined, "a");
  expect(trusting.seen[0]?.authorization).toBeUndefined();
});

test.runIf(process.platform === "linux" && process.getuid?.() === 0)(
  "what another user listens with is not asked, unless that is wanted",
  async () => {
    const { spawn } = await import("node:child_process");
    const script = `require("node:http").createServer((q, r) => q.resume().on("end", () => r.end('{"status":"success","output":{"stdout":"foreign"}}'))).listen(0, "127.0.0.1", function () { console.log(this.address().port) })`;
    const child = spawn(process.execPath, ["-e", script], {
      uid: 4242,
      gid: 4242,
      stdio: ["ignore", "pipe", "ignore"],
    });
    onTestFinished(() => void child.kill());
    const port = await new Promise((resolve) => child.stdout.once("data", (data) => resolve(Number(data))));
    const base = { urls: [`http://127.0.0.1:${port}`], coolDownMs: 1_000, log: createLog("silent") };
    const slot = { sessionId: "s", workspaceDir: "", runDir: "", signal: new AbortController().signal };
    const provider = await createPoolProvider(base);
    await expect(provider.start({ language: "python" }, slot)).rejects.toThrow(
      "a process of another user listens there",
    );
    const trusting = await createPoolProvider({ ...base, anyListener: true });
    const kernel = await trusting.start({ language: "python" }, slot);
    onTestFinished(() => trusting.dispose());
    expect(JSON.stringify(await run(kernel, "1"))).toContain("foreign");
  },
);
