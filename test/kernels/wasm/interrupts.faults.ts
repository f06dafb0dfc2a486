import { spawn } from "node:child_process";
import { afterAll, expect, test } from "vitest";
import { rounds } from "../../support/rounds.ts";
import { interruptRounds, seeded } from "./interrupt-rounds.ts";
import { wasmKernels } from "./wasm-kernels.ts";

const kernels = wasmKernels();
const ROUNDS = Number(process.env.INTERRUPT_ROUNDS ?? rounds(300, 100));
const seed = Number(process.env.INTERRUPT_SEED ?? Date.now() % 1e9);

// Concurrently, so that threads are slow at any moment.
const busy = [1, 2].map(() => spawn(process.execPath, ["-e", "for (;;);"], { stdio: "ignore" }));
afterAll(() => {
  for (const child of busy) child.kill("SIGKILL");
});

test(`${ROUNDS} interrupts at any moment, beside two busy loops (seed ${seed})`, { timeout: 900_000 }, async () => {
  const tally = await interruptRounds(async () => (await kernels.start()).kernel, ROUNDS, seeded(seed));
  expect(tally).toMatchObject({ rounds: ROUNDS, failures: [] });
});
