import { expect, test } from "vitest";
import { failure, result, run as runCell, runUntilReady, text } from "../../contracts/kernel.ts";
import { testPython } from "../../support/pythons.ts";
import { describeWith } from "../../support/requirements.ts";
import { builtFrom, providerKernels } from "../provider-kernels.ts";

describeWith("managedPython", "a cell that asks for IPython as it is", async () => {
  const kernels = providerKernels(builtFrom({ kernel: "local", env: testPython("managed"), jail: "none" }));
  const { kernel } = await kernels.start();
  const run = (code: string) => runCell(kernel, code, { classic: true });
  const traceback = (events: Awaited<ReturnType<typeof run>>) => failure(events)?.traceback.join("\n") ?? "";

  test("an exception is shown as IPython shows it, without our additions", async () => {
    const events = await run("def f():\n    return 1 / 0\nf()");
    expect(failure(events)).toMatchObject({ name: "ZeroDivisionError", message: "division by zero" });
    expect(traceback(events)).toMatch(
      /^-{75}\nZeroDivisionError {25}Traceback \(most recent call last\)\nCell In\[\d+\], line 3\n/,
    );
    expect(traceback(events)).toMatch(/\nZeroDivisionError: division by zero$/);
    expect(traceback(await run("import not_there"))).toMatch(/No module named 'not_there'$/);
    expect(traceback(await run("raise ValueError"))).toMatch(/\nValueError: $/);
    expect(failure(await run("def"))).toMatchObject({ name: "SyntaxError" });
  });

  test("input that cannot be answered is refused in ipykernel's words, with none of our frames", async () => {
    const events = await run("input('n? ')");
    expect(failure(events)).toMatchObject({
      name: "StdinNotImplementedError",
      message: "raw_input was called, but this frontend does not support input requests.",
    });
    expect(traceback(events)).not.toMatch(/CellKernel|typing_in/);
  });

  test("an interrupt is one, in an await too, with none of our frames", async () => {
    for (const code of ["import time; time.sleep(100)", "import asyncio; await asyncio.sleep(100)"]) {
      const interrupted = runUntilReady(kernel, `print('ready', flush=True)\n${code}`, () => kernel.interrupt?.(), {
        classic: true,
      });
      const events = await interrupted;
      expect(failure(events)).toMatchObject({ name: "KeyboardInterrupt" });
      expect(traceback(events)).not.toContain("interrupts.py");
    }
  });

  test("magics need no mark by default", async () => {
    expect(result(await run("pwd"))).toMatch(/^'\//);
    await run("%automagic off");
    expect(failure(await run("pwd"))).toMatchObject({ name: "NameError" });
    await run("%automagic on");
  });

  test("a cell that does not ask for it has our words again", async () => {
    expect(text(await run("print(1)"))).toBe("1\n");
    const { traceback: lines } = failure(await runCell(kernel, "1 / 0")) ?? {};
    expect(lines?.[0]).toBe("Traceback (most recent call last):");
    expect(failure(await runCell(kernel, "pwd"))).toMatchObject({ name: "NameError" });
  });
});
