import { expect, test } from "vitest";
import { startHttp } from "../support/program.ts";

test("two tenants of one server do not see each other, and a stranger sees nothing", async () => {
  const program = await startHttp({
    args: ["--auth-token", "ann=the-token-of-ann", "--auth-token", "bob=the-token-of-bob"],
  });
  const ann = await program.client("v2 modern", "the-token-of-ann");
  const bob = await program.client("v1", "the-token-of-bob");
  const { session_id } = (await ann.run("secret = 42", { session_name: "plan" })).execution;
  await ann.call("write_file", { session_id, path: "a.txt", content: "private" });

  const unknown = "0123456789abcdef";
  for (const [tool, args] of [
    ["execute_code", { code: "secret" }],
    ["read_file", { path: "a.txt" }],
    ["interrupt", {}],
    ["close_session", { delete_files: true }],
  ] as const) {
    const guessed = await bob.call(tool, { ...args, session_id });
    const random = await bob.call(tool, { ...args, session_id: unknown });
    expect(guessed.isError).toBe(true);
    expect(guessed.text.replaceAll(session_id, "ID")).toBe(random.text.replaceAll(unknown, "ID"));
  }
  expect((await bob.call("execute_code", { code: "1", session_id: "plan" })).isError).toBe(true);
  expect((await bob.call("list_sessions")).text).not.toContain(session_id);
  await expect(bob.raw.readResource({ uri: `cell://${session_id}/a.txt` })).rejects.toThrow();
  expect((await ann.run("secret", { session_id })).text).toContain("42");

  await expect(program.client("v2 legacy", "token-of-eve")).rejects.toThrow();
  await expect(program.client("v2 legacy")).rejects.toThrow();
  expect((await fetch(program.url, { method: "POST" })).status).toBe(401);
  expect((await fetch(new URL("/healthz", program.url))).status).toBe(200);
  expect(program.stderr()).not.toContain("token-of");
});
