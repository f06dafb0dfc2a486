/** Names and sessions, across the replaced systems, with the native tools. X-03 in their toolsets: x-profiles. */

import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { startStdio } from "../support/program.ts";
import { describeWith } from "../support/requirements.ts";
import { newSession, onLocal, onWasm, read, sharedProgram } from "./x-support.ts";

describe("names and sessions", () => {
  const program = sharedProgram(onWasm);

  test("X-01 all that the five systems offer can be reached with our own tools", async () => {
    const client = program();
    const { tools } = await client.raw.listTools();
    const names = tools.map(({ name }) => name);
    const wanted = {
      run: ["execute_code", "wait"],
      sessions: ["list_sessions", "reset_session", "interrupt", "close_session"],
      files: ["list_files", "read_file", "write_file", "edit_file", "delete_file", "import_file", "export_file"],
      look: ["list_variables", "inspect_variable"],
      environments: ["list_environments", "install_packages"],
    };
    expect(names).toEqual(expect.arrayContaining(Object.values(wanted).flat()));
    const { resourceTemplates } = await client.raw.listResourceTemplates();
    expect(resourceTemplates.map(({ uriTemplate }) => uriTemplate)).toContainEqual(
      expect.stringMatching(/^cell:\/\/\{session_id\}\//),
    );

    // A session is created by its first cell, listed, reset, and closed with or without its files.
    const session_id = await newSession(client, "x = 1", { session_name: "tour" });
    expect((await client.call("list_sessions")).text).toContain("tour");
    expect((await client.call("interrupt", { session_id })).isError).toBe(false);
    expect((await client.call("write_file", { session_id, path: "a.txt", content: "one" })).isError).toBe(false);
    expect((await read(client, `cell://${session_id}/a.txt`)).text).toBe("one");
    expect((await client.call("reset_session", { session_id })).isError).toBe(false);
    expect((await client.run("'x' in dir()", { session_id })).structured?.result).toBe("False");
    expect((await client.call("close_session", { session_id })).isError).toBe(false);
    expect((await read(client, `cell://${session_id}/a.txt`)).text).toBe("one");
    const clearing = await newSession(client, "1");
    await client.call("close_session", { session_id: clearing, delete_files: true });
    expect((await client.call("list_files", { session_id: clearing })).isError).toBe(true);

    // Stateless: the next call does not see what one call leaves behind.
    await client.run("leftover = 1");
    expect((await client.run("'leftover' in dir()")).structured?.result).toBe("False");
  });

  test("X-02 no id, an empty one, '0' and 0 begin four sessions", async () => {
    const client = program();
    const asked = [{}, { session_id: "" }, { session_id: "0" }, { session_id: 0 }];
    const replies = await Promise.all(asked.map((id) => client.run("1", id)));
    expect(new Set(replies.map(({ execution }) => execution.session_id)).size).toBe(4);
  });

  test("X-03 a first cell that raises keeps its session, with what it had assigned", async () => {
    const client = program();
    const first = await client.run("earlier = 'kept'\n1/0");
    expect(first.structured).toMatchObject({ status: "error", error: { name: "ZeroDivisionError" } });
    const { session_id } = first.execution;
    expect(first.text).toContain(session_id);
    expect((await client.run("earlier", { session_id })).structured?.result).toBe("'kept'");
  });

  test("X-05 an id that looks like a path is an unknown id, in every tool that takes one", async () => {
    const client = await startStdio({ args: [...onWasm, "--files-dir", "/tmp"] });
    const victim = join(client.dataDir, "sessions", "..", "victim");
    mkdirSync(victim);
    writeFileSync(join(victim, "file"), "mine");
    const before = readdirSync(client.dataDir).sort();
    const { tools } = await client.raw.listTools();
    const takers = tools.filter(({ inputSchema }) => "session_id" in (inputSchema.properties ?? {}));
    expect(takers.length).toBeGreaterThan(14);
    const more = {
      ...{ code: "1", path: "file", content: "x", old_text: "mine", new_text: "theirs", name: "x" },
      ...{ packages: ["tabulate"], host_path: "cellwright-nothing.txt" },
    };
    for (const session_id of ["..", "../victim", "a/b", "a%2Fb", "%2e%2e%2fvictim", "a\0b", "x".repeat(10_000)]) {
      for (const { name, inputSchema } of takers) {
        const own = Object.keys(inputSchema.properties ?? {}).filter((key) => Object.hasOwn(more, key));
        const rest = Object.fromEntries(own.map((key) => [key, more[key as keyof typeof more]]));
        const reply = await client.call(name, { ...rest, session_id });
        expect({ name, ...reply }).toMatchObject({ isError: true, text: expect.stringContaining("session_not_found") });
      }
    }
    expect(readFileSync(join(victim, "file"), "utf8")).toBe("mine");
    expect(readdirSync(victim)).toEqual(["file"]);
    expect(readdirSync(client.dataDir).sort()).toEqual(before);
  });
});

describeWith("localKernels", "many sessions", () => {
  test("X-04 a hundred sessions begun at once have a hundred ids, and each its own variables", async () => {
    const client = await startStdio({ args: [...onLocal, "--max-sessions", "120"] });
    const numbers = Array.from({ length: 100 }, (_, number) => number);
    const replies = await Promise.all(numbers.map((number) => client.run(`mine = ${number}`)));
    const ids = replies.map(({ execution }) => execution.session_id);
    expect(new Set(ids).size).toBe(100);
    const kept = await Promise.all(ids.map((session_id) => client.run("mine", { session_id })));
    expect(kept.map(({ structured }) => structured?.result)).toEqual(numbers.map(String));
  }, 120_000);
});
