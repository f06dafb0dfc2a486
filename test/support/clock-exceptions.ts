/** Exceptions: where tests sleep or measure time, and why. `where`: a file, or a folder that ends in `/`. */
export const exceptions: { where: string; line?: string; why: string }[] = [
  { where: "support/until.ts", why: "polls for a condition, so that tests need not sleep" },
  { where: "support/ago.ts", why: "dates of files that look old" },
  { where: "support/fake-kernel.ts", why: "the pace of a fake cell's script" },
  {
    where: "support/jupyter-server.ts",
    line: "backstop",
    why: "a server that does not stop must not outlive the test",
  },
  { where: "support/tcp-proxy.ts", why: "plays a slow network" },

  // Third-party code: of a page, a cell, a client.
  { where: "browser/browser.test.ts", line: "setTimeout(() => {", why: "a page that draws late" },
  { where: "browser/browser.test.ts", line: "<script>", why: "a page that goes on drawing" },
  { where: "browser/sandbox.test.ts", line: "location.href", why: "a page that leaves later" },
  { where: "kernels/plots/real.test.ts", line: "pause()", why: "matplotlib's pause, in a test's name" },
  { where: "kernels/wasm/hostile.test.ts", line: "setTimeout(", why: "a worker that fails between cells" },
  { where: "kernels/wasm/kernel.test.ts", line: "BUSY_LOOP", why: "keeps the worker from its event loop for a second" },
  { where: "kernels/wasm/kernel.test.ts", line: "asyncio.sleep(0.3)", why: "an interrupt sent twice would come in it" },
  { where: "http/app.test.ts", line: "drip", why: "a client that sends a byte now and then" },
  { where: "conformance/fixture.ts", why: "tools as the conformance suite describes them" },

  // There is no event to wait for if something must not happen.
  { where: "contracts/bash.ts", line: "setTimeout(resolve, 300)", why: "what would pile up needs time to do so" },
  { where: "contracts/bash.ts", line: "setTimeout(resolve, 150)", why: "a process that is left would write again" },
  {
    where: "kernels/wasm/limits.test.ts",
    line: "setTimeout(resolve, 300)",
    why: "what would pile up needs time to do so",
  },

  // A fault at many moments: they need to differ, but their exact times do not matter.
  { where: "contracts/kernel.ts", line: "delayMs", why: "an interrupt at moments of a cell's beginning" },
  { where: "kernels/wasm/interrupt-rounds.ts", line: "kernel.interrupt", why: "an interrupt at any moment of a cell" },
  {
    where: "kernels/wasm/interrupt-rounds.ts",
    line: "HANG_MS",
    why: "a cell that hangs must not take the other rounds along",
  },
  { where: "browser/drawer.test.ts", why: "on fake timers, which it moves itself" },
  { where: "engine/session/session.property.test.ts", why: "on fake timers, which it moves itself" },
  { where: "kernels/remote/socket.test.ts", why: "on fake timers, which it moves itself" },
  { where: "store/claim-fighter.mjs", why: "processes that collide at random" },
  { where: "workspace/local/rewriter.mjs", why: "a writer that rests, so that a reader can succeed" },
  { where: "kernels/remote/faults/connection.faults.ts", why: "connections that break at moments of a cell" },
  { where: "kernels/remote/faults/death.faults.ts", why: "kernels and servers that die at moments of a cell" },
  { where: "kernels/remote/faults/recovery.faults.ts", line: "pause", why: "a connection that breaks again and again" },
  {
    where: "kernels/remote/faults/recovery.faults.ts",
    line: "sleep(7)",
    why: "longer than a kernel's answer is waited for",
  },
  { where: "kernels/pool/load.faults.ts", why: "load for a given time, with a kill now and then" },

  // The test is about time.
  {
    where: "kernels/local/cold.test.ts",
    why: "a kernel lives on past its second without a server, while there is one",
  },
  { where: "render/worker.test.ts", line: "setInterval", why: "looks at the memory while a picture is drawn" },
  { where: "e2e/long-cells.test.ts", line: "time.sleep(1)", why: "cells that outlast a client's patience" },
  { where: "e2e/checklist-s0.test.ts", line: "time.sleep(12)", why: "a cell that outlasts a client's patience" },
  { where: "e2e/pool.test.ts", line: "time.sleep(1)", why: "only a running cell shows which sandbox it is on" },
  { where: "acceptance/s0.accept.ts", line: "time.sleep(12)", why: "S0-09: a cell of twelve seconds" },
  { where: "acceptance/s1a.accept.ts", line: "time.sleep(40)", why: "a cell that is silent for 40 s" },
  { where: "acceptance/s1a-life.accept.ts", line: "time.sleep(2)", why: "a cell that goes on while its server ends" },
  { where: "acceptance/s3-balancing.accept.ts", line: "time.sleep(1)", why: "two cells of one session, seen at once" },
  { where: "acceptance/s3-faults.accept.ts", why: "S3-14: how long an answer is waited for" },
  {
    where: "acceptance/x-environments.accept.ts",
    line: "time.sleep(14)",
    why: "a cell that outlasts a client's patience",
  },
  {
    where: "acceptance/x-long-cells.accept.ts",
    why: "cells that outlast a client's patience, and how often progress comes",
  },
  { where: "acceptance/x-profiles-long.accept.ts", why: "cells that outlast a client's patience" },

  // Suites that run alone.
  { where: "attack/", why: "bombs are judged by seconds and megabytes" },
  { where: "soak/", why: "memory is looked at again and again" },
];
