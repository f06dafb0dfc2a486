import { expect, test } from "vitest";
import { createWorld } from "./support.ts";

test("list_sessions shows a table", async () => {
  const { call, options } = createWorld();
  expect((await call("list_sessions")).text).toBe("No sessions.");
  const { execution } = await call("execute_code", { code: "count", session_name: "Analysis" });
  const listed = await call("list_sessions");
  expect(listed.text.replace(execution.session_id, "x".repeat(16)).split("\n")).toEqual([
    "id                name      state  kernel       last used",
    "xxxxxxxxxxxxxxxx  Analysis  idle   Fake kernel  now",
  ]);
  options.structured = true;
  expect((await call("list_sessions")).structuredContent).toMatchObject({
    sessions: [{ session_id: execution.session_id, name: "Analysis", state: "idle" }],
    total: 1,
  });
});

test("reset_session ends the kernel and keeps the session", async () => {
  const { call, provider } = createWorld();
  const { execution } = await call("execute_code", { code: "count" });
  const { session_id } = execution;
  expect((await call("reset_session", { session_id })).text).toContain("was reset: variables are lost, files are kept");
  expect(provider.kernels[0]?.disposals).toBe(1);
  expect((await call("execute_code", { code: "count", session_id })).text).toMatch(/^1\n/);
});

test("close_session ends it; its files can be read and not written", async () => {
  const { call } = createWorld();
  const { session_id } = (await call("execute_code", { code: "count" })).execution;
  await call("write_file", { session_id, path: "a.txt", content: "kept" });
  expect((await call("close_session", { session_id })).text).toContain("is closed. Its files can still be read");
  expect(await call("execute_code", { code: "count", session_id })).toMatchObject({ code: "session_closed" });
  expect((await call("read_file", { session_id, path: "a.txt" })).text).toContain("kept");
  expect(await call("write_file", { session_id, path: "a.txt", content: "new" })).toMatchObject({
    code: "session_closed",
  });
});

test("close_session can delete everything", async () => {
  const { call, sessions } = createWorld();
  const { session_id } = (await call("execute_code", { code: "count" })).execution;
  expect((await call("close_session", { session_id, delete_files: true })).text).toContain("are deleted");
  expect(await sessions.list("local")).toEqual([]);
  expect(await call("list_files", { session_id })).toMatchObject({ code: "session_not_found" });
});

test("another owner's session does not exist", async () => {
  const { call } = createWorld();
  const { session_id } = (await call("execute_code", { code: "count" })).execution;
  for (const name of ["wait", "interrupt", "reset_session", "close_session", "list_files", "list_variables"]) {
    expect(await call(name, { session_id }, { owner: "other" })).toMatchObject({ code: "session_not_found" });
  }
});
