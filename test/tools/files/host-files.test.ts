import { mkdir, readFile, stat, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { obeyedName } from "../../../src/reach/obeyed.ts";
import { secretName } from "../../../src/tools/files/secret-names.ts";
import { openHostFiles } from "../../../src/workspace/host-files.ts";
import { createWorld, temporaryFolder } from "../support.ts";

async function startSession({ local = true, options = {} } = {}) {
  const dir = temporaryFolder();
  const world = createWorld({ options });
  const session = await world.sessions.create("local");
  const hostFiles = openHostFiles(dir, []);
  const call = (name: string, args: Record<string, unknown>) =>
    world.call(name, { session_id: session.id, ...args }, { hostFiles, local });
  const read = async (path: string) =>
    Buffer.from((await session.workspace.read(path, { maxBytes: 1e9 })).bytes).toString();
  return { ...world, dir, session, call, read };
}

describe("import_file", () => {
  test("copies a file of the user, named relative or absolute", async () => {
    const { call, dir, read } = await startSession();
    await mkdir(join(dir, "data"));
    await writeFile(join(dir, "data", "in.csv"), "a,b\n");
    const relative = await call("import_file", { host_path: "data/in.csv" });
    expect(relative.text).toContain(`Copied ${join(dir, "data", "in.csv")} to in.csv (4 B).`);
    expect(await read("in.csv")).toBe("a,b\n");
    await call("import_file", { host_path: join(dir, "data", "in.csv"), path: "raw/x.csv" });
    expect(await read("raw/x.csv")).toBe("a,b\n");
  });

  test("replaces a file of the session only with overwrite", async () => {
    const { call, dir, read, session } = await startSession();
    await writeFile(join(dir, "a.txt"), "theirs");
    await session.workspace.write("a.txt", Buffer.from("mine"));
    const refused = await call("import_file", { host_path: "a.txt" });
    expect(refused.code).toBe("invalid_input");
    expect(refused.text).toContain("`a.txt` exists already.");
    await call("import_file", { host_path: "a.txt", overwrite: true });
    expect(await read("a.txt")).toBe("theirs");
  });

  test("refuses everything outside of the folder", async () => {
    const { call, dir } = await startSession();
    await symlink("/etc", join(dir, "link"));
    for (const host_path of ["../x", "/etc/passwd", `${dir}/../x`, "a/../../x", "link/hostname", `${dir}-other/x`]) {
      expect(await call("import_file", { host_path }), host_path).toMatchObject({ code: "host_path_refused" });
    }
    expect(await call("import_file", { host_path: "nope.txt" })).toMatchObject({ code: "file_not_found" });
    expect((await call("import_file", { host_path: "nope.txt" })).text).toContain("below --files-dir");
  });

  test("refuses secrets, and files larger than a session may hold", async () => {
    const { call, dir } = await startSession({ options: { diskMb: 1 } });
    await writeFile(join(dir, ".env"), "KEY=1");
    const refused = await call("import_file", { host_path: ".env" });
    expect(refused.code).toBe("host_path_refused");
    expect(refused.text).toContain("usually hold secrets");
    await writeFile(join(dir, "big"), Buffer.alloc(1_100_000));
    expect(await call("import_file", { host_path: "big" })).toMatchObject({ code: "too_large" });
  });

  test("says how to allow it where there is no folder", async () => {
    const { call, sessions } = createWorld();
    const { id } = await sessions.create("local");
    const refused = await call("import_file", { session_id: id, host_path: "a" });
    expect(refused.code).toBe("host_path_refused");
    expect(refused.text).toContain("--files-dir");
  });
});

describe("export_file", () => {
  test("copies a file of the session, and names its real place to a client on this machine only", async () => {
    const { call, dir, session } = await startSession();
    await session.workspace.write("out.csv", Buffer.from("1\n"));
    const exported = await call("export_file", { host_path: "results/out.csv" });
    expect(exported.text).toBe(`Copied out.csv to ${join(dir, "results", "out.csv")} (2 B).`);
    expect(await readFile(join(dir, "results", "out.csv"), "utf8")).toBe("1\n");
    const far = await startSession({ local: false });
    await far.session.workspace.write("out.csv", Buffer.from("1\n"));
    expect((await far.call("export_file", { host_path: "out.csv" })).text).toBe("Copied out.csv to out.csv (2 B).");
  });

  test("a file that it replaces is not executable any more", async () => {
    const { call, dir, session } = await startSession();
    await writeFile(join(dir, "run"), "#!/bin/sh\n", { mode: 0o755 });
    await session.workspace.write("run", Buffer.from("#!/bin/sh\nid\n"));
    await call("export_file", { host_path: "run", overwrite: true });
    expect((await stat(join(dir, "run"))).mode & 0o111).toBe(0);
  });

  test("refuses what is protected also when a link leads there", async () => {
    const { call, dir, session } = await startSession();
    await mkdir(join(dir, ".vscode"));
    await symlink(".vscode", join(dir, "v"));
    await session.workspace.write("tasks.json", Buffer.from("{}"));
    const refused = await call("export_file", { host_path: "v/tasks.json" });
    expect(refused.code).toBe("host_path_refused");
    expect(refused.text).toContain("outside the sandbox");
  });

  test("replaces a file only with overwrite", async () => {
    const { call, dir, session } = await startSession();
    await writeFile(join(dir, "a.txt"), "theirs");
    await session.workspace.write("a.txt", Buffer.from("mine"));
    expect((await call("export_file", { host_path: "a.txt" })).text).toContain("exists already");
    expect(await readFile(join(dir, "a.txt"), "utf8")).toBe("theirs");
    await call("export_file", { host_path: "a.txt", overwrite: true });
    expect(await readFile(join(dir, "a.txt"), "utf8")).toBe("mine");
  });

  test("exports kept outputs", async () => {
    const { call, dir, store, session } = await startSession();
    const uri = await store.putBlob(session.id, Buffer.from("<p>"), "text/html");
    await call("export_file", { host_path: "page.html", path: uri });
    expect(await readFile(join(dir, "page.html"), "utf8")).toBe("<p>");
  });

  test("refuses places that hold secrets or that programs act on", async () => {
    const { call, session } = await startSession();
    await session.workspace.write("x", Buffer.from(""));
    for (const host_path of [".env", "server.key", ".git/hooks/pre-commit", ".vscode/tasks.json", "../x", "/tmp/x"]) {
      expect(await call("export_file", { host_path, path: "x" }), host_path).toMatchObject({
        code: "host_path_refused",
      });
    }
  });
});

test.each([
  ".env",
  ".env.local",
  "prod.env",
  "deploy/tls.pem",
  "server.KEY",
  ".ssh/config",
  "home/.aws/credentials",
  "id_rsa",
  "id_rsa.pub",
  "id_ed25519",
  ".npmrc",
  ".pypirc",
  ".netrc",
  "_netrc",
  "credentials.json",
  "Credentials",
  ".gnupg/x",
  ".kube/config",
  ".docker/config.json",
  "secrets.yaml",
  "secret.json",
  "client_secret.json",
  "a.p12",
  "a.pfx",
  "a.keystore",
  ".git-credentials",
  "terraform.tfstate",
  ".bash_history",
  ".env ",
  ".env::$DATA",
])("%s usually holds a secret", (path) => {
  expect(secretName(path)).toBeDefined();
});

test.each(["data.csv", "environment.yml", "env/readme.txt", "keys.csv", "monkey.png", "secretary.txt", "a.key.csv"])(
  "%s does not",
  (path) => {
    expect(secretName(path)).toBeUndefined();
  },
);

test.each([
  ".git/config",
  ".bashrc",
  "x/.husky/pre-commit",
  "node_modules/a/index.js",
  ".mcp.json",
  "CLAUDE.md",
  ".venv/bin/python",
  "sub/venv/lib/x.py",
  "lib/site-packages/numpy/__init__.py",
  "sitecustomize/__init__.py",
  "usercustomize.py",
  "SiteCustomize.pyc",
  "a.pth",
  "tests/conftest.py",
  ".Git/hooks/x",
  "HEAD",
])("programs act on %s", (path) => {
  expect(obeyedName(path)).toBeDefined();
});

test.each(["data.csv", "src/config", "environment.yml", "venv.txt", "site.py", "results/hooks/a.txt", "head.csv"])(
  "no program acts on %s",
  (path) => {
    expect(obeyedName(path)).toBeUndefined();
  },
);
