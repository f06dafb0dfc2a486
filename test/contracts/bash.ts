import { describe, expect, test } from "vitest";
import type { ExecutionEvent } from "../../src/execution.ts";
import type { Kernel } from "../../src/kernels/kernel.ts";
import type { Workspace } from "../../src/workspace/workspace.ts";
import { until } from "../support/until.ts";
import { failure, run, runUntilReady, sharedKernel, text } from "./kernel.ts";

export interface BashContract {
  name: string;
  /** A fresh shell of a provider, in a separate session. */
  start(): Promise<{ kernel: Kernel; workspace: Workspace }>;
  /** Characters shown of one cell; of longer output, the part before the end is dropped, with a note. */
  maxCellChars?: number;
}

/** The suite that shells of every backend pass: `test/kernels/contract` has a file for those of each. */
export function testBash(contract: BashContract): void {
  const shared = sharedKernel(contract.start);
  /** What a cell writes to stdout. */
  const shown = async (code: string) => text(await run((await shared()).kernel, code));

  describe(`${contract.name}: what a cell shows`, () => {
    test("stdout and stderr come apart and in order, and done is last and once", async () => {
      const { kernel } = await shared();
      const events = await runUntilReady(
        kernel,
        "echo ready; until [ -e go ]; do sleep 0.01; done; echo two >&2; rm go; until [ -e on ]; do sleep 0.01; done; rm on; echo three",
        async () => {
          const { workspace } = await shared();
          await workspace.write("go", EMPTY);
          await workspace.write("on", EMPTY);
        },
      );
      expect(text(events)).toBe("ready\nthree\n");
      expect(text(events, "stderr")).toBe("two\n");
      expect(events[0]).toMatchObject({ type: "stream", name: "stdout", text: "ready\n" });
      expect(events.filter(({ type }) => type === "done")).toHaveLength(1);
      expect(events.at(-1)).toMatchObject({ type: "done", status: "ok" });
    });

    test("an exit code of 0 shows nothing, another one is an error that names it", async () => {
      const { kernel } = await shared();
      expect(await run(kernel, "true")).toMatchObject([{ type: "done", status: "ok" }]);
      expect(await run(kernel, "(exit 3)")).toMatchObject([
        { type: "error", name: "ExitCode", message: "exit code 3" },
        { type: "done", status: "error" },
      ]);
      expect(failure(await run(kernel, "bash -c 'kill -9 $$'"))).toMatchObject({ message: "exit code 137 (SIGKILL)" });
    });

    test("the exit code is there for the next cell, and cells are counted, silent ones not", async () => {
      const { kernel } = await shared();
      const before = (await run(kernel, "(exit 7)")).at(-1);
      const silent = (await run(kernel, "true", { silent: true })).at(-1);
      const events = await run(kernel, "echo $?");
      expect(text(events)).toBe("7\n");
      expect(silent).toMatchObject({ executionCount: null });
      const count = before?.type === "done" ? Number(before.executionCount) : 0;
      expect(events.at(-1)).toMatchObject({ executionCount: count + 1 });
    });

    test("a cell without any command is no failure", async () => {
      const { kernel } = await shared();
      await run(kernel, "true");
      for (const code of ["", "\n\n", "# only a comment", "   "]) {
        expect(await run(kernel, code)).toMatchObject([{ type: "done", status: "ok" }]);
      }
    });

    test("/dev/stdout, /dev/stderr and /dev/fd can be opened by name", async () => {
      const { kernel } = await shared();
      const events = await run(
        kernel,
        "echo out >/dev/stdout; echo err >/dev/stderr; cat <(echo sub); echo t | tee /dev/stderr",
      );
      expect(text(events)).toBe("out\nsub\nt\n");
      expect(text(events, "stderr")).toBe("err\nt\n");
    });

    test("10 MB arrive whole, a megabyte in one line too", async () => {
      const { kernel } = await shared();
      const output = text(await run(kernel, "seq -f %1023.0f 10000; head -c 1000000 /dev/zero | tr '\\0' x"));
      expect(output.length).toBe(10_240_000 + 1_000_000);
      expect(output.slice(0, 1024).trim()).toBe("1");
      expect(output.slice(10_240_000 - 1024, 10_240_000).trim()).toBe("10000");
    });

    test("a flood waits for a slow reader instead of piling up", async () => {
      const { kernel } = await shared();
      let read = 0;
      let piled = 0;
      for await (const event of kernel.execute("head -c 200000000 /dev/zero")) {
        if (event.type !== "stream") continue;
        read += event.text.length;
        // Reading the first piece late shows that little was read ahead.
        if (read === event.text.length) {
          const before = process.memoryUsage().rss;
          await new Promise((resolve) => setTimeout(resolve, 300));
          piled = process.memoryUsage().rss - before;
        }
      }
      const { maxCellChars } = contract;
      if (maxCellChars === undefined) expect(read).toBe(200_000_000);
      else expect(Math.floor(read / maxCellChars)).toBe(1);
      expect(piled).toBeLessThan(64 * 1024 * 1024);
    });

    test("a character split between two writes survives, and bytes that are no text are marked", async () => {
      expect(await shown("printf '\\xf0\\x9f'; sleep 0.05; printf '\\x99\\x82\\xc3'; sleep 0.05; printf '\\xa9'")).toBe(
        "🙂é",
      );
      expect(await shown("printf 'a\\xff\\xfeb\\0c\\xe2\\x82'")).toBe("a\ufffd\ufffdb\0c\ufffd");
      expect(await shown("echo next")).toBe("next\n");
    });
  });

  describe(`${contract.name}: what stays`, () => {
    test("folder, variables, exports, functions, arrays, aliases, options and descriptors", async () => {
      const { workspace } = await shared();
      await shown(
        "mkdir -p deep && cd deep; word='a b'; export shared=yes; greet() { echo \"hi $1\"; }; declare -A map=([k]=v)\n" +
          "list=(1 2 3); declare -i number=4; alias say='echo said'; shopt -s nullglob; exec 5>five.txt",
      );
      const code =
        `basename "$PWD"; echo "$word"; env | grep ^shared=; greet you; echo "\${map[k]} \${list[2]}"\n` +
        "number+=1; echo $number; say x; echo *.none; echo 5 >&5";
      expect(await shown(code)).toBe("deep\na b\nshared=yes\nhi you\nv 3\n5\nsaid x\n\n");
      await shown("exec 5>&-; cd ..; shopt -u nullglob; unalias say");
      expect(await fileText(workspace, "deep/five.txt")).toBe("5\n");
    });

    test("the working directory is the workspace", async () => {
      const { kernel, workspace } = await shared();
      await workspace.write("in.txt", Buffer.from("hello"));
      expect(text(await run(kernel, "cat in.txt; echo back >out.txt"))).toBe("hello");
      expect(await fileText(workspace, "out.txt")).toBe("back\n");
    });

    test("variables arrive beside the code: text as it is, values as JSON, bytes as base64", async () => {
      const { kernel } = await shared();
      const variables = {
        word: "a'b\"\\\n$(date) `date` é\n",
        list: [1, null, { x: "y" }],
        data: new Uint8Array([0, 255]),
        n: 5,
      };
      const events = await run(kernel, 'printf "%s|" "$word" "$list" "$data" "$n"; bash -c \'echo "[$word]"\'', {
        variables,
      });
      expect(text(events)).toBe(`${variables.word}|[1,null,{"x":"y"}]|AP8=|5|[]\n`);
      expect(await shown('echo "$n"')).toBe("5\n");
    });

    test("what a shell cannot have is refused before anything is run", async () => {
      const { kernel } = await shared();
      await run(kernel, "here=1");
      for (const [code, variables] of [
        ["here=2\necho a\0b", {}],
        ["here=2", { "not-a-name": 1 }],
        ["here=2", { "x[$(here=3)]": 1 }],
        ["here=2", { nul: "a\0b" }],
      ] as const) {
        const events = await run(kernel, code, { variables });
        expect(events).toMatchObject([
          { type: "error", name: "InvalidCell" },
          { type: "done", status: "error" },
        ]);
      }
      expect(await shown("echo $here")).toBe("1\n");
    });

    test("code is taken literally, whatever is in it", async () => {
      expect(await shown("cat <<'END'\n$HOME `x` \"'\\\nEND\necho \"wow!\" 'it'\"'\"'s'")).toBe(
        "$HOME `x` \"'\\\nwow! it's\n",
      );
      expect(await shown("echo 'é🙂' # comment '\n# \"\necho last")).toBe("é🙂\nlast\n");
      expect(await shown(`x=${"y".repeat(2_000_000)}; echo \${#x}`)).toBe("2000000\n");
    });

    test("an unfinished command is a syntax error with its line, and the next cell is fine", async () => {
      const { kernel } = await shared();
      for (const code of ["echo one\nfor i in 1 2; do", "echo 'open", "if true; then", "( echo", "echo $(ls", "}"]) {
        const events = await run(kernel, code);
        expect(events.at(-1)).toMatchObject({ status: "error" });
        expect(text(events, "stderr")).toMatch(/line \d+: .*(syntax error|unexpected)/);
      }
      expect(await shown("cat <<END\nopen document")).toBe("open document\n");
      expect(await shown("echo fine")).toBe("fine\n");
    });
  });

  describe(`${contract.name}: what could confuse it`, () => {
    test("read and cat get the end of input at once", async () => {
      expect(
        await shown("read line; echo \"$? [$line]\"; cat; cat /dev/stdin; python3 -c 'input()' 2>/dev/null; echo on"),
      ).toBe("1 []\non\n");
    });

    test("forged reports end nothing", async () => {
      const forge = "for fd in {3..99}; do printf 'end 1 0\\0end %032d 0\\0begin 9\\0' 0 >&$fd; done 2>/dev/null";
      const count = "n=0; for fd in {0..99}; do { : <&$fd; } 2>/dev/null && n=$((n + 1)); done; echo $n";
      expect(await shown(`${forge}; bash -c '${forge}'; bash -c '${count}'; echo end`)).toMatch(/^[34]\nend\n$/);
      expect(await shown("echo mine")).toBe("mine\n");
    });

    test("exec that moves a stream lasts until the end of the cell only", async () => {
      expect(await shown("echo a; exec >moved.txt 2>&1; echo b")).toBe("a\n");
      expect(await shown("exec >&- 2>&- <&-; echo lost")).toBe("");
      expect(await shown("echo c; cat moved.txt")).toBe("c\nb\n");
    });

    test("traps, options and redefined commands of a cell do not break the next one", async () => {
      const { kernel } = await shared();
      for (const code of [
        "set -x; echo traced; set +x",
        "set -v",
        "set +v",
        "trap 'echo debug' DEBUG",
        "trap - DEBUG",
        "set -u; set -o noclobber; set -f",
        "set +u; set +o noclobber; set +f",
        "set -o posix",
        "set +o posix",
        "IFS=0123456789abcdef; PS1='> '; PS4=x; PROMPT_COMMAND='echo prompt'",
        "unset IFS PROMPT_COMMAND",
        "printf() { :; }; source() { :; }; alias printf=false builtin=false",
        "unset -f printf source; unalias -a",
        "shopt -s extdebug; shopt -u extdebug",
        "trap 'echo never' USR1; trap - USR1",
      ]) {
        await run(kernel, code);
        expect(await shown("echo fine")).toContain("fine\n");
      }
    });

    test("under set -e the first failure ends the cell, not the shell", async () => {
      const { kernel } = await shared();
      await run(kernel, "kept=41");
      for (const code of [
        "set -euo pipefail\necho a\nfalse\necho b",
        "set -e; f() { ls /nowhere; echo no; }; echo a; f; echo b",
        "set -e; echo a; x=$(exit 4); echo b",
        "set -eo pipefail; echo a; false | true; echo b",
      ]) {
        const events = await run(kernel, code);
        expect(text(events)).toBe("a\n");
        expect(failure(events)).toMatchObject({
          name: "ExitCode",
          message: expect.stringMatching(/^exit code [124]$/),
        });
      }
      expect(await shown("if false; then :; fi; false || (exit 0); echo $kept $-")).toMatch(/^41 \S*e/);
      expect(failure(await run(kernel, "[[ a == b ]] && echo x"))).toMatchObject({ message: "exit code 1" });
      expect(await shown("set +eu +o pipefail; echo $kept")).toBe("41\n");
    });
  });

  describe(`${contract.name}: an interrupt`, () => {
    // Printed by the program that is to be interrupted: one that is just being started may miss the signal.
    const ready = "echo ready";
    test.each([
      ["a loop", "echo ready; while :; do :; done"],
      ["a program", `sh -c "${ready}; exec sleep 600"; echo after`],
      ["a pipeline", `sh -c "echo; exec sleep 600" | sh -c "read x; ${ready}; exec cat"; echo after`],
      ["a subshell", "(echo ready; while :; do :; done); echo after"],
      ["wait", `sh -c "${ready}; exec sleep 600" & job=$!; wait; echo after`],
      ["a function", `f() { sh -c "${ready}; exec sleep 600"; }; f; echo after`],
      ["a flood", "echo ready; yes"],
      [
        "programs that take the signal for their own",
        `for i in 1 2 3; do sh -c 'trap "exit 0" INT; ${ready}; while :; do sleep 0.01; done'; done; while :; do :; done`,
      ],
    ])("ends %s and keeps variables", async (_, code) => {
      const { kernel } = await shared();
      await run(kernel, "kept=41");
      const events = await runUntilReady(kernel, code, () => kernel.interrupt?.());
      expect(failure(events)).toMatchObject({ name: "Interrupted" });
      expect(text(events)).not.toContain("after");
      expect(text(await run(kernel, "echo $((kept + 1))"))).toBe("42\n");
    });

    test("is heard however early or late it comes, and never hits the next cell", async () => {
      const { kernel } = await shared();
      for (let round = 0; round < 30; round += 1) {
        const running = run(kernel, round % 3 === 0 ? "true" : "while :; do :; done");
        for (let ticks = 0; ticks < round * 2; ticks += 1) await new Promise((resolve) => setImmediate(resolve));
        await kernel.interrupt?.();
        await running;
        expect(text(await run(kernel, `echo ${round}`))).toBe(`${round}\n`);
      }
    });

    test("of nothing is nothing", async () => {
      const { kernel } = await shared();
      await run(kernel, "kept=1");
      await kernel.interrupt?.();
      expect(await shown("echo $kept")).toBe("1\n");
    });

    test("leaves jobs in the background alone", async () => {
      const { kernel } = await shared();
      const late: ExecutionEvent[] = [];
      // One that is already running: bash makes it ignore the interrupt, after the fork.
      const job = "(touch begun; until [ -e go ]; do sleep 0.02; done; echo survived) & job=$!";
      await run(kernel, `rm -f go begun; ${job}; until [ -e begun ]; do sleep 0.02; done`, {
        onLate: (event) => late.push(event),
      });
      await runUntilReady(kernel, "echo ready; sleep 600", () => kernel.interrupt?.());
      await run(kernel, "touch go; wait $job");
      await until(() => text(late) === "survived\n");
    });
  });

  describe(`${contract.name}: jobs in the background`, () => {
    test("do not hold the cell up, and what they write later is told apart from the next cell's", async () => {
      const { kernel } = await shared();
      const late: ExecutionEvent[] = [];
      const code = "rm -f go; (until [ -e go ]; do sleep 0.02; done; echo late; echo later >&2) & job=$!; echo now";
      const first = await run(kernel, code, { onLate: (event) => late.push(event) });
      const second = await run(kernel, "echo second; touch go; wait $job; echo end");
      expect(text(first)).toBe("now\n");
      expect(text(first, "stderr")).toBe("");
      expect(text(second)).toBe("second\nend\n");
      await until(() => text(late) === "late\n" && text(late, "stderr") === "later\n");
    });

    test("of many cells are all heard", async () => {
      const { kernel } = await shared();
      const late: ExecutionEvent[][] = [];
      for (let cell = 0; cell < 12; cell += 1) {
        const own: ExecutionEvent[] = [];
        late.push(own);
        await run(kernel, `rm -f go; (until [ -e go ]; do sleep 0.05; done; echo job ${cell}) & jobs[${cell}]=$!`, {
          onLate: (event) => own.push(event),
        });
      }
      await run(kernel, `touch go; wait "\${jobs[@]}"`);
      await until(() => late.every((own, cell) => text(own) === `job ${cell}\n`));
    });

    test("that flood do not end the shell, nor hold it up", async () => {
      const { kernel } = await shared();
      let chars = 0;
      await run(kernel, "yes & flood=$!", {
        onLate: (event) => (chars += event.type === "stream" ? event.text.length : 0),
      });
      await until(() => chars > 100_000);
      expect(await shown("kill $flood; wait $flood 2>/dev/null; echo gone")).toBe("gone\n");
    });
  });

  describe(`${contract.name}: the end of a shell`, () => {
    test("exit ends it with what it printed, and says with which code", async () => {
      const { kernel } = await contract.start();
      const events: ExecutionEvent[] = [];
      const running = (async () => {
        for await (const event of kernel.execute("echo bye; exit 3")) events.push(event);
      })();
      await expect(running).rejects.toMatchObject({
        code: "kernel_died",
        message: expect.stringContaining("exit code 3"),
      });
      expect(text(events)).toBe("bye\n");
      expect((await kernel.closed).reason).toContain("exit code 3");
      await expect(run(kernel, "true")).rejects.toMatchObject({ code: "kernel_died" });
      await kernel.dispose();
    });

    test("disposing in mid-cell ends the cell with kernel_died, keeping what it printed", async () => {
      const { kernel } = await contract.start();
      const events: ExecutionEvent[] = [];
      const running = (async () => {
        for await (const event of kernel.execute("echo ready; sleep 600")) {
          events.push(event);
          void kernel.dispose();
        }
      })();
      await expect(running).rejects.toMatchObject({ code: "kernel_died" });
      expect(text(events)).toBe("ready\n");
      await Promise.all([kernel.dispose(), kernel.dispose()]);
      expect(await kernel.closed).toHaveProperty("reason");
    });

    test.each(["dispose", "exit"])("%s ends all it started, sessions and daemons of their own too", async (way) => {
      const { kernel, workspace } = await contract.start();
      const daemon = "while :; do date +%s%N >$name.beat.new; mv $name.beat.new $name.beat; sleep 0.02; done";
      const code =
        `export name=job; (${daemon}) & export name=session; setsid bash -c '${daemon}' & ` +
        `export name=double; (setsid bash -c '(${daemon}) &' &) ; until [ -e job.beat -a -e session.beat -a -e double.beat ]; do sleep 0.01; done`;
      await run(kernel, code);
      if (way === "exit") await run(kernel, "exit 0").catch(() => {});
      await kernel.dispose();
      const beats = () => Promise.all(["job", "session", "double"].map((name) => fileText(workspace, `${name}.beat`)));
      const before = await beats();
      await new Promise((resolve) => setTimeout(resolve, 150));
      expect(await beats()).toEqual(before);
    });

    test("two shells do not mix, and one cell at a time is run in each", async () => {
      const [one, two] = await Promise.all([contract.start(), contract.start()]);
      const [first, second] = await Promise.all([
        run(one.kernel, "mine=1; for i in {1..2000}; do echo one; done"),
        run(two.kernel, "for i in {1..2000}; do echo two; done; echo $mine"),
      ]);
      expect(text(first)).toBe("one\n".repeat(2000));
      expect(text(second)).toBe(`${"two\n".repeat(2000)}\n`);
      await runUntilReady(one.kernel, "echo ready; read -t 5 x; sleep 0.1", async () => {
        await expect(run(one.kernel, "true")).rejects.toMatchObject({ code: "kernel_busy" });
      });
      await Promise.all([one.kernel.dispose(), two.kernel.dispose()]);
    });
  });
}

const EMPTY = new Uint8Array();

async function fileText(workspace: Workspace, path: string): Promise<string> {
  return Buffer.from((await workspace.read(path, { maxBytes: 1_000 })).bytes).toString();
}
