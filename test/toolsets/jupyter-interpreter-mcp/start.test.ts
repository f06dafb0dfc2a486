import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { CellwrightError } from "../../../src/errors.ts";
import { defaultOptions, OptionError } from "../../../src/options/options.ts";
import { commandLine, environment } from "../../../src/toolsets/jupyter-interpreter-mcp/start.ts";
import { environment as environment04 } from "../../../src/toolsets/jupyter-interpreter-mcp/toolset-04.ts";

const options = { ...defaultOptions(), jupyterUrl: ["http://host:1/user/a/"] };
const url = "http://host:1/user/a";

describe("a server that cannot be used", () => {
  test.each([
    [
      "server_unreachable",
      "cannot be reached: nothing listens there.",
      `Cannot connect to Jupyter server at ${url}: nothing listens there.`,
    ],
    [
      "server_unreachable",
      "cannot be reached: it did not answer within 30 s.",
      `Request to ${url} timed out after 30s: it did not answer within 30 s.`,
    ],
    [
      "server_refused",
      "refuses the token (401).",
      `Authentication failed: 401 The Jupyter server at ${url} refuses the token (401).`,
    ],
    [
      "server_refused",
      "refuses the token (403).",
      `Authorization failed: 403 The Jupyter server at ${url} refuses the token (403).`,
    ],
    [
      "server_refused",
      "redirects to another address (302).",
      `The Jupyter server at ${url} redirects to another address (302).`,
    ],
  ] as const)("%s: %s", (code, said, reason) => {
    const error = new CellwrightError(code, `The Jupyter server at ${url} ${said}`);
    expect(commandLine.refuse({ error, options })).toEqual({
      message: `Failed to connect to Jupyter server at ${url}: ${reason}\nPlease check your configuration and ensure Jupyter server is running.`,
      exitCode: 1,
    });
  });

  test("unusable settings are reported in the original's words", () => {
    expect(commandLine.refuse({ error: new OptionError("SESSION_TTL `abc`: no") })).toEqual({
      message: "Invalid configuration: SESSION_TTL `abc`: no",
      exitCode: 1,
    });
    expect(commandLine.refuse({ error: new Error("anything") })).toBeUndefined();
  });
});

describe("a .env counts where nothing is set", () => {
  const cwd = mkdtempSync(join(tmpdir(), "cw-env-"));
  afterAll(() => rmSync(cwd, { recursive: true }));
  writeFileSync(
    join(cwd, ".env"),
    "JUPYTER_TOKEN='t'\nNOTEBOOKS_FOLDER=/n\nSESSION_TTL=5\nCELLWRIGHT_ALLOW_NET=*\nALLOWED_UPLOAD_DIRS=/a: :/b:\n",
  );

  test("for the names that 0.2 knows", () => {
    expect(environment02(cwd)).toEqual({ JUPYTER_TOKEN: "t", NOTEBOOKS_FOLDER: "/n" });
  });

  test("for the names that 0.4 knows", () => {
    expect(environment04({ SESSION_TTL: "7" }, cwd)).toEqual({
      JUPYTER_TOKEN: "t",
      SESSION_TTL: "7",
      CELLWRIGHT_ALLOWED_DIR: "/a,/b",
    });
  });
});

describe("the environment", () => {
  const nowhere = join(tmpdir(), "cw-no-such-folder");

  test.each([
    [{ RESTORE_SESSIONS_ON_STARTUP: "perhaps" }, {}],
    [{ RESTORE_SESSIONS_ON_STARTUP: "Yes" }, { RESTORE_SESSIONS_ON_STARTUP: "true" }],
    [{ SESSION_TTL: "-5" }, { SESSION_TTL: "0" }],
    [{ SESSIONS_DIR: "/s" }, { CELLWRIGHT_SESSIONS_DIR: "/s" }],
    [{ SESSIONS_DIR: "" }, {}],
  ])("%j is read as 0.4 reads it", (given, read) => {
    expect(environment04(given, nowhere)).toEqual(read);
  });

  test("an empty address is not the default", () => {
    expect(environment([], { JUPYTER_BASE_URL: "" }, nowhere)).toEqual({ JUPYTER_BASE_URL: "/" });
  });
});

function environment02(cwd: string) {
  return environment(["NOTEBOOKS_FOLDER"], {}, cwd);
}
