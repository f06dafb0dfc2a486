import { describe, expect, test } from "vitest";
import { testBash } from "../../contracts/bash.ts";
import { failure, runUntilReady, text } from "../../contracts/kernel.ts";
import { describeWithTiers } from "../../support/isolations.ts";
import { builtFrom, providerKernels } from "../provider-kernels.ts";

const language = "bash";

describe("local shells with --jail none", () => {
  const kernels = providerKernels(builtFrom({ kernel: "local", jail: "none" }));
  testBash({ name: "unjailed", start: () => kernels.start({ language }) });
});

describeWithTiers("local shells, isolated", (jail) => {
  const kernels = providerKernels(builtFrom({ kernel: "local", jail }));
  testBash({ name: "jailed", start: () => kernels.start({ language }) });

  const filtered = providerKernels(builtFrom({ kernel: "local", jail, allowNet: ["example.org"] }));
  test("an interrupt reaches the shell, and not the forwarder of the filtering proxy beside it", async () => {
    const { kernel } = await filtered.start({ language });
    const events = await runUntilReady(kernel, "echo ready; sleep 30; echo awake", () => kernel.interrupt?.());
    expect(text(events)).toBe("ready\n");
    expect(failure(events)).toMatchObject({ name: "Interrupted" });
  });
});
