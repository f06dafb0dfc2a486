import { dirname } from "node:path";
import { afterAll, beforeAll, expect } from "vitest";
import { type AtEnd, type Reply, startStdio, type TestClient } from "../support/program.ts";
import { testPython } from "../support/pythons.ts";

/** The Python environment that local kernels are tested in. */
export const environment = dirname(dirname(testPython("managed")));
export const onWasm = ["--kernel", "wasm", "--structured"];
export const onLocal = ["--kernel", "local", "--env", environment, "--structured"];

export type Program = Awaited<ReturnType<typeof startStdio>>;

/** Something that the cases of one suite share: created before the first of them, removed after the last. */
export function shared<T>(make: (atEnd: AtEnd) => Promise<T>): () => T {
  const cleanUps: (() => void | Promise<void>)[] = [];
  let made: { value: T } | undefined;
  beforeAll(async () => {
    made = { value: await make((cleanUp) => void cleanUps.unshift(cleanUp)) };
  });
  afterAll(async () => {
    for (const cleanUp of cleanUps) await cleanUp();
  });
  return () => {
    if (!made) throw new Error("It is made before the first case, not while cases are listed.");
    return made.value;
  };
}

/** One server over stdio, for a suite whose cases do not interfere. */
export function sharedProgram(args: string[], env: Record<string, string> = {}): () => Program {
  return shared((atEnd) => startStdio({ args, env, atEnd }));
}

export async function newSession(client: TestClient, code = "import os, sys, time", args = {}): Promise<string> {
  return (await client.run(code, args)).execution.session_id;
}

export function links({ content }: Reply) {
  return content.filter(({ type }) => type === "resource_link");
}

/** The pictures of a reply as bytes. */
export function pictures({ content }: Reply): Buffer[] {
  return content.filter(({ type }) => type === "image").map(({ data }) => Buffer.from(String(data), "base64"));
}

/** Width and height; throws if it is not a PNG. */
export function sizeOfPng(bytes: Buffer): [number, number] {
  expect(bytes.subarray(1, 4).toString()).toBe("PNG");
  return [bytes.readUInt32BE(16), bytes.readUInt32BE(20)];
}

export async function read(
  client: TestClient,
  uri: string,
): Promise<{ mimeType?: string; text?: string; blob?: string }> {
  const { contents } = await client.raw.readResource({ uri });
  return contents[0] ?? {};
}

export async function stateOf(client: TestClient, id: string): Promise<string | undefined> {
  const { structured } = await client.call("list_sessions");
  const sessions = structured?.sessions as { session_id: string; state: string }[];
  return sessions.find(({ session_id }) => session_id === id)?.state;
}
