import { existsSync, mkdirSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Execution, MimeBundle } from "../../src/execution.ts";
import type { SessionRecord, Store } from "../../src/store/store.ts";

/** The suite that every store passes. `open` gives an empty store. */
export function testStore({ name, open }: { name: string; open: () => Promise<Store> }): void {
  describe(`${name} keeps`, () => {
    let store: Store;
    beforeEach(async () => {
      store = await open();
    });
    afterEach(() => store.dispose());

    describe("sessions", () => {
      test("as they were saved last", async () => {
        await store.saveSession(record("s1"));
        await store.saveSession(record("s2", { name: "Sales\n2026 `x`", env: "wasm" }));
        await store.saveSession(record("s1", { endedAt: "2026-08-02T00:00:00.000Z" }));
        const sessions = (await store.sessions()).sort((one, other) => (one.id < other.id ? -1 : 1));
        expect(sessions).toEqual([
          record("s1", { endedAt: "2026-08-02T00:00:00.000Z" }),
          record("s2", { name: "Sales\n2026 `x`", env: "wasm" }),
        ]);
      });

      test("so that of many saves at once the last one stays", async () => {
        const saves = Array.from({ length: 50 }, (_, index) =>
          store.saveSession(record("s1", { name: `name ${index}` })),
        );
        await Promise.all(saves);
        expect(await store.sessions()).toEqual([record("s1", { name: "name 49" })]);
      });

      test("for the process that claimed them, more than once and again after a release", async () => {
        await store.saveSession(record("s1"));
        expect(await store.claim("s1")).toBe(true);
        expect(await store.claim("s1")).toBe(true);
        expect(await store.claimedBy("s1")).toBeUndefined();
        await store.release("s1");
        await store.release("s1");
        expect(await store.claim("s1")).toBe(true);
      });

      test("not when they were only claimed", async () => {
        await store.claim("s1");
        expect(await store.claimedBy("never-seen")).toBeUndefined();
        expect(await store.sessions()).toEqual([]);
        expect(await store.history("never-seen")).toEqual([]);
      });
    });

    describe("history", () => {
      test("in the order in which cells began", async () => {
        await store.begin("s1", execution("a", { status: "running" }));
        await store.begin("s1", execution("b", { status: "running" }));
        await store.finish("s1", execution("b"));
        await store.finish("s1", execution("a", { status: "error", durationMs: 5 }));
        await store.begin("s2", execution("c"));
        expect(await store.history("s1")).toEqual([execution("a", { status: "error", durationMs: 5 }), execution("b")]);
      });

      test("with the last of several ends", async () => {
        await store.begin("s1", execution("a", { status: "running" }));
        await store.finish("s1", execution("a"));
        const late = execution("a", { outputs: [{ type: "stream", name: "stdout", text: "late" }] });
        await store.finish("s1", late);
        expect(await store.history("s1")).toEqual([late]);
      });

      test("of which cells can be had without what they showed, and one of them with it", async () => {
        const outputs: Execution["outputs"] = [{ type: "display", data: { "text/html": "x".repeat(50_000) } }];
        const code = `# ${"long ".repeat(10_000)}`;
        const files: Execution["files"] = [{ path: "a", change: "created", sizeBytes: 1, mimeType: "text/plain" }];
        const shown = execution("a", { code, outputs, files });
        await store.begin("s1", { ...shown, status: "running", outputs: [], files: [] });
        expect(await store.cells("s1")).toMatchObject([{ id: "a", code, files: [] }]);
        await store.finish("s1", shown);
        await store.finish("s1", execution("b"));
        const { outputs: _, ...cell } = shown;
        const [first, second] = await store.cells("s1");
        expect(first).toEqual(cell);
        expect(second).not.toHaveProperty("outputs");
        expect(await store.execution("s1", "a")).toEqual(shown);
        expect(await store.execution("s1", "c")).toBeUndefined();
        expect(await store.cells("never-seen")).toEqual([]);
      });

      test("of a cell that still runs, as running", async () => {
        await store.claim("s1");
        await store.begin("s1", execution("a", { status: "running" }));
        expect(await store.history("s1")).toEqual([execution("a", { status: "running" })]);
      });

      test("of a cell that was never finished, as kernel_died with a notice", async () => {
        await store.claim("s1");
        await store.begin("s1", execution("a", { status: "running" }));
        await store.release("s1");
        const [lost] = await store.history("s1");
        expect(lost).toMatchObject({ id: "a", status: "kernel_died", code: "1 + 1" });
        expect(lost?.notices).toEqual(["The program ended while this cell ran; its outcome is unknown."]);
      });

      test("apart from the objects it was given", async () => {
        const given = execution("a");
        await store.begin("s1", given);
        given.notices.push("changed later");
        const [first] = await store.history("s1");
        expect(first?.notices).toEqual([]);
        first?.notices.push("changed by a reader");
        expect((await store.history("s1"))[0]?.notices).toEqual([]);
      });

      test("of 100 cells at once, none missing or mixed up", async () => {
        const ids = Array.from({ length: 100 }, (_, index) => `cell-${index}`);
        await Promise.all(ids.map((id) => store.begin("s1", execution(id, { status: "running" }))));
        await Promise.all(ids.map((id) => store.finish("s1", execution(id, { code: `# ${id}` }))));
        expect(await store.history("s1")).toEqual(ids.map((id) => execution(id, { code: `# ${id}` })));
      });

      const long = "line of text, ä 😀\n".repeat(10_000);
      const image = Buffer.from(Array.from({ length: 60_000 }, (_, index) => (index * 7919) % 256)).toString("base64");
      const shown: Record<string, MimeBundle> = {
        "an image": { "image/png": image, "text/plain": "<Figure>" },
        "an image with line ends in its base64": { "image/png": image.replace(/.{76}/g, "$&\n") },
        "an image type with what is no base64": { "image/png": long },
        "a drawing": { "image/svg+xml": `<svg>${long}</svg>` },
        "a long page": { "text/html": long },
        "half a character": { "text/plain": `${long}\ud83d` },
        "a large table as JSON": { "application/json": Array.from({ length: 20_000 }, (_, row) => ({ row })) },
        "JSON that looks like our own words": {
          "application/json": { type: "finish", large: [], $blob: "x", file: "../x" },
        },
        "names of JavaScript's own": JSON.parse(`{"__proto__": ${JSON.stringify(long)}, "constructor": {"a": 1}}`),
        nothing: {},
      };
      test.each(Object.entries(shown))("with outputs exactly as they were: %s", async (_, data) => {
        const full = execution("a", { outputs: [{ type: "display", data, displayId: "d1" }] });
        await store.begin("s1", execution("a", { status: "running" }));
        await store.finish("s1", full);
        const [kept] = await store.history("s1");
        expect(kept).toEqual(full);
        const [output] = kept?.outputs ?? [];
        expect(output?.type === "display" && Object.entries(output.data)).toEqual(Object.entries(data));
        expect(({} as Record<string, unknown>).a).toBeUndefined();
      });

      test("with long code, text, tracebacks and lists of files exactly as they were", async () => {
        const full = execution("a", {
          code: `${long}\0\u2028\r\n`,
          outputs: [
            { type: "stream", name: "stderr", text: long, cut: { at: 5, chars: 10 } },
            { type: "error", name: "ValueError", message: long, traceback: [long, "", "\ud800"] },
          ],
          files: Array.from({ length: 2_000 }, (_, index) => ({
            path: `f\n${index}`,
            change: "created" as const,
            sizeBytes: index,
            mimeType: "text/csv",
          })),
        });
        await store.begin("s1", full);
        await store.finish("s1", full);
        expect(await store.history("s1")).toEqual([full]);
      });
    });

    describe("bytes", () => {
      const bytes = Uint8Array.from({ length: 1_000 }, (_, index) => index % 256);

      test("once, under an address of their session", async () => {
        const uri = await store.putBlob("s1", bytes, "image/png");
        expect(uri).toMatch(/^cell:\/\/s1\/\.outputs\/[\w.-]+\.png$/);
        expect(await store.putBlob("s1", bytes.slice(), "image/png")).toBe(uri);
        expect(await store.putBlob("s1", bytes.slice(1), "image/png")).not.toBe(uri);
        const blob = await store.getBlob(uri);
        expect(Buffer.from(blob?.bytes ?? []).equals(bytes)).toBe(true);
      });

      test.each([
        ["image/png", "image/png"],
        ["image/jpeg", "image/jpeg"],
        ["image/svg+xml", "image/svg+xml"],
        ["text/html; charset=utf-8", "text/html"],
        ["application/vnd.vega.v5+json", "application/json"],
        ["text/x-unheard-of", "text/plain"],
        ["../../x", "application/octet-stream"],
        ["", "application/octet-stream"],
      ])("of type %j, given back as %s", async (mimeType, expected) => {
        const blob = await store.getBlob(await store.putBlob("s1", bytes, mimeType));
        expect(blob?.mimeType).toBe(expected);
      });

      test("and knows no others", async () => {
        const uri = await store.putBlob("s1", bytes, "image/png");
        expect(await store.getBlob(uri.replace("s1", "s2"))).toBeUndefined();
        expect(await store.getBlob("cell://s1/.outputs/none.png")).toBeUndefined();
        expect(await store.getBlob("")).toBeUndefined();
      });
    });

    describe("a long text", () => {
      test("while it is written, in whatever pieces it comes", async () => {
        const spill = store.openSpill("s1", "e1.txt", 10_000_000);
        expect(await store.getBlob(spill.uri)).toBeUndefined();
        const text = "ä😀 z\n".repeat(30_000);
        for (let start = 0; start < text.length; start += 7) spill.write(text.slice(start, start + 7));
        expect((await read(spill.uri)).length).toBeGreaterThan(text.length - 7);
        await spill.close();
        await spill.close();
        expect(await read(spill.uri)).toBe(text);
        expect((await store.getBlob(spill.uri))?.mimeType).toBe("text/plain");
      });

      test("up to its limit, ending with a whole character and without holes", async () => {
        const spill = store.openSpill("s1", "e1.txt", 10);
        spill.write("1234567ä");
        spill.write("😀");
        spill.write("x");
        await spill.close();
        expect(await read(spill.uri)).toBe("1234567ä");
      });

      test("not at all when nothing came", async () => {
        const spill = store.openSpill("s1", "e1.txt", 10);
        await spill.close();
        expect(await store.getBlob(spill.uri)).toBeUndefined();
      });

      async function read(uri: string): Promise<string> {
        return Buffer.from((await store.getBlob(uri))?.bytes ?? []).toString();
      }
    });

    describe("a folder", () => {
      test("that is private, and the same every time", async () => {
        const folder = await store.folder("s1");
        expect(await store.folder("s1")).toBe(folder);
        expect(await store.folder("s2")).not.toBe(folder);
        if (process.platform !== "win32") expect(statSync(folder).mode & 0o777).toBe(0o700);
      });

      test("until the session is forgotten, with all that belongs to it and nothing else", async () => {
        for (const id of ["s1", "s2"]) {
          await store.claim(id);
          await store.saveSession(record(id));
          await store.begin(id, execution("a"));
          await store.finish(id, execution("a"));
        }
        const uri = await store.putBlob("s1", Buffer.from("x"), "text/plain");
        const folder = await store.folder("s1");
        mkdirSync(join(folder, "workspace", "deep", "er"), { recursive: true });
        writeFileSync(join(folder, "workspace", "deep", "er", "file"), "x");
        await store.forget("s1");
        expect(existsSync(folder)).toBe(false);
        expect(await store.getBlob(uri)).toBeUndefined();
        expect(await store.history("s1")).toEqual([]);
        expect(await store.sessions()).toEqual([record("s2")]);
        expect(await store.history("s2")).toEqual([execution("a")]);
        await store.forget("never-seen");
      });

      test("and can be disposed of twice", async () => {
        await store.folder("s1");
        await store.dispose();
        await store.dispose();
      });
    });
  });
}

export function record(id: string, more: Partial<SessionRecord> = {}): SessionRecord {
  return {
    id,
    owner: "local",
    createdAt: "2026-08-01T10:00:00.000Z",
    lastUsedAt: "2026-08-01T10:00:01.000Z",
    cells: 0,
    ...more,
  };
}

export function execution(id: string, more: Partial<Execution> = {}): Execution {
  return {
    id,
    code: "1 + 1",
    language: "python",
    status: "ok",
    executionCount: 1,
    outputs: [{ type: "result", data: { "text/plain": "2" } }],
    files: [],
    notices: [],
    startedAt: "2026-08-01T10:00:00.000Z",
    durationMs: 1,
    ...more,
  };
}
