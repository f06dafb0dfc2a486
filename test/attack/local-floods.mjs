// Group B for local kernels and bash: floods of text and of displays, with a client that reads slowly or is gone.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { expect, protects, proves, short, sleep, timed } from "./case.mjs";
import { forBoth, forPython, LIMITS, LOCAL, patience, sessionIn, usedServer } from "./local-stage.mjs";
import { MAX_PEAK_MB, MAX_REPLY_BYTES, peakOf } from "./peak.mjs";
import { rssMb, spawnRaw } from "./server.mjs";
import { JAILED } from "./tier.mjs";

/** Each flood in a separate session; fails with all floods that were not withstood. */
async function withstand(stage, language, floods, { timeout_s = 40 } = {}) {
  const problems = [];
  let hurt = false;
  for (const [name, flood] of Object.entries(floods)) {
    const { code, lateMs = 0 } = typeof flood === "string" ? { code: flood } : flood;
    const server = await usedServer(stage);
    const session = await sessionIn(stage, server, language);
    const deafMs = [];
    let over = false;
    const { value: reply, grownMb } = await peakOf(server, async () => {
      const watched = (async () => {
        while (!over) {
          deafMs.push((await timed(() => server.admin.call("list_sessions", {}, { timeout: 60_000 }))).ms);
          await sleep(100);
        }
      })();
      try {
        const answer = await session.run(code, { timeout_s });
        if (lateMs === 0) return answer;
        await sleep(lateMs);
        return await session.run(language === "python" ? "1" : "echo 1");
      } finally {
        over = true;
        await watched.catch(() => deafMs.push(60_000));
      }
    }).catch((error) => ({ value: { whole: "", text: `no answer: ${error.message}` }, grownMb: Number.NaN }));
    const worstMs = Math.max(...deafMs);
    const isDeaf = worstMs > 2_000 * patience();
    hurt ||= !reply.whole || grownMb > MAX_PEAK_MB || isDeaf;
    if (!reply.whole) problems.push(`${name}: ${reply.text}`);
    if (/error: internal/.test(reply.text)) problems.push(`${name}: ${short(reply.text)}`);
    if (grownMb > MAX_PEAK_MB) problems.push(`${name}: the server grew by ${Math.round(grownMb)} MB`);
    if (reply.whole.length > MAX_REPLY_BYTES * 1.4) problems.push(`${name}: the reply has ${reply.whole.length} bytes`);
    if (isDeaf) problems.push(`${name}: the server was deaf for ${Math.round(worstMs)} ms`);
    await session.close().catch(() => {});
    // The remains of one flood must not count for the next: settle the accounting here.
    const broken = await stage.endCase();
    hurt ||= broken.length > 0;
    problems.push(...broken.map((error) => `${name}: ${error.message}`));
  }
  (hurt ? protects : expect)(problems.length === 0, problems.join("; "));
  return `${Object.keys(floods).length} floods`;
}

const textFloods = (stage) => ({
  python: {
    "one long line": `print("x" * ${stage.times(150, 60)}_000_000)`,
    "many prints": `for i in range(${stage.times(1_000_000, 100_000)}): print(i)`,
    "both streams in turn": `import sys\nfor i in range(${stage.times(60_000, 10_000)}):\n    print(i)\n    print(i, file=sys.stderr)`,
    "progress bar": `for i in range(${stage.times(200_000, 40_000)}): print(f"\\r{i}" + "#" * 60, end="")`,
    "past Python": `import os\nfor i in range(${stage.times(2_000, 500)}): os.write(1, b"x" * 100_000)`,
    "by a program": "import subprocess\nsubprocess.run(\"head -c 100000000 /dev/zero | tr '\\\\0' x\", shell=True)",
    "after the cell": {
      code: 'import threading\ndef flood():\n    for i in range(2000): print("y" * 50_000)\nthreading.Thread(target=flood).start()',
      lateMs: 2_000,
    },
  },
  bash: {
    "one long line": `head -c ${stage.times(300, 100)}000000 /dev/zero | tr '\\0' x`,
    "many lines": `seq ${stage.times(3_000_000, 500_000)}`,
    "both streams in turn": `for i in {1..${stage.times(60_000, 10_000)}}; do echo $i; echo $i >&2; done`,
    "progress bar": `for i in {1..${stage.times(200_000, 40_000)}}; do printf '\\r%d%060d' $i 0; done`,
    escapes: "yes $'\\e[31m\\e[2J\\e]0;title\\a' | head -c 20000000",
    "bytes that are no text": "head -c 50000000 /dev/urandom",
    "after the cell": { code: "(yes yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy | head -c 100000000) & echo left", lateMs: 2_000 },
  },
});

async function naiveCollector() {
  const child = spawn(process.execPath, ["-e", "process.stdout.write('x'.repeat(1e8))"]);
  let text = "";
  child.stdout.on("data", (chunk) => {
    text += chunk;
  });
  await once(child, "close");
  proves(text.length === 1e8, `${text.length} characters`);
  return "a naive collector holds 100 MB";
}

const b26 = forBoth((language) => ({
  id: "B26",
  class: "A2*",
  what: "floods of text: one long line, tiny prints, progress bars, by programs, from behind",
  probe: (stage) => withstand(stage, language, textFloods(stage)[language]),
  control: naiveCollector,
}));

const unread = {
  python: 'for i in range(40_000): print("z" * 5_000)',
  bash: "yes zzzzzzzzzzzzzzzzzzzzzzzzz | head -c 200000000",
};

const b27 = forBoth((language) => ({
  id: "B27",
  class: "A2*",
  what: "flood for a client that does not read; flood with the client gone",
  async probe(stage) {
    const program = spawnRaw({ args: [...JAILED, ...LIMITS], kernel: LOCAL });
    stage.after(() => program.stop());
    const info = { protocolVersion: "2025-06-18", capabilities: {}, clientInfo: { name: "raw", version: "1" } };
    await program.ask({ jsonrpc: "2.0", id: 1, method: "initialize", params: info });
    program.send({ jsonrpc: "2.0", method: "notifications/initialized" });
    const call = (id, args) => ({
      jsonrpc: "2.0",
      id,
      method: "tools/call",
      params: { name: "execute_code", arguments: { language, ...args } },
    });
    const started = await program.ask(call(2, { code: language === "python" ? "0" : ":" }));
    const { session_id } = started.result._meta["cellwright/execution"];
    const before = rssMb(program.pid);
    program.child.stdout.pause();
    for (let id = 10; id < 14; id += 1) program.send(call(id, { code: unread[language], session_id, timeout_s: 2 }));
    let peak = before;
    for (let turn = 0; turn < 60; turn += 1) {
      await sleep(50);
      peak = Math.max(peak, rssMb(program.pid));
    }
    protects(
      peak - before < MAX_PEAK_MB,
      `the client does not read, and the server grew by ${Math.round(peak - before)} MB`,
    );
    program.child.stdout.resume();
    const answer = await program.answered(10, 20_000);
    expect(answer && JSON.stringify(answer).length < MAX_REPLY_BYTES * 1.4, "no reply, or one that is too long");
    program.send(call(20, { code: unread[language], session_id, timeout_s: 60 }));
    await sleep(300);
    const exited = once(program.child, "exit");
    program.child.stdin.end();
    const end = await Promise.race([exited, sleep(10_000 * patience())]);
    expect(end, "the program goes on without its client");
  },
  async control() {
    const naive =
      "require('net').createServer((s) => { for (let i = 0; i < 300; i++) s.write(Buffer.alloc(1e6, 1)); }).listen(0, '127.0.0.1', function () { console.log(this.address().port); require('net').connect(this.address().port).pause(); setTimeout(() => { console.log(process.memoryUsage().rss); process.exit(); }, 1000) })";
    const child = spawn(process.execPath, ["-e", naive], { stdio: ["ignore", "pipe", "ignore"] });
    let text = "";
    child.stdout.on("data", (chunk) => {
      text += chunk;
    });
    await once(child, "close");
    const mb = Number(text.trim().split("\n")[1]) / 1e6;
    proves(mb > 250, `${Math.round(mb)} MB`);
    return `a writer without back-pressure holds ${Math.round(mb)} MB`;
  },
}));

const b28 = forPython({
  id: "B28",
  class: "A2*",
  what: "huge displays: data, images, updates, reprs, recursion, forms, figures",
  probe: (stage) =>
    withstand(stage, "python", {
      "displays as large as can be": `for i in range(${stage.times(20, 6)}): display({"text/plain": "x" * 8_300_000}, raw=True)`,
      "html as large as can be": `for i in range(${stage.times(20, 6)}): display({"text/html": "<p>" + "é" * 1_390_000, "text/plain": "p"}, raw=True)`,
      "too large": `for i in range(${stage.times(20, 8)}): display({"text/plain": "x" * 15_000_000}, raw=True)`,
      "many images": `import base64\npng = base64.b64encode(bytes.fromhex("89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c6360606060000000050001a5f645400000000049454e44ae426082")).decode()\nfor i in range(${stage.times(10_000, 2_000)}): display({"image/png": png}, raw=True)`,
      "many figures":
        "import matplotlib.pyplot as plt\nfor i in range(25): plt.figure(figsize=(9, 9)).gca().plot(range(50))",
      "a result of 60 MB": '"x" * 60_000_000',
      "a repr of 60 MB": "class Large:\n    def __repr__(self): return 'y' * 60_000_000\nLarge()",
      "a repr without end": "class Deep:\n    def __repr__(self): return repr(self)\nDeep()",
      "a list in itself": "a = []\na.append(a)\nfor _ in range(10_000): a = [a]\na",
      "a long exception": "raise ValueError('z' * 50_000_000)",
      "a chain of exceptions":
        "def f(n):\n    try:\n        if n: f(n - 1)\n        raise KeyError(n)\n    except KeyError as error:\n        raise ValueError('v' * 1_000) from error\nf(300)",
      "updates that grow": `for i in range(20): display({"text/plain": str(i)}, raw=True, display_id=str(i))\nfor i in range(20): display({"text/plain": "x" * 6_000_000}, raw=True, display_id=str(i), update=True)`,
      "many files": 'for i in range(3_000): open(f"f{i}", "w").close()',
    }),
  control: naiveCollector,
});

export default [...b26, ...b27, ...b28];
