import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { CellwrightError } from "../../../src/errors.ts";
import { defaultOptions, OptionError } from "../../../src/options.ts";
import { commandLine } from "../../../src/tools/compat/jupyter-interpreter-start.ts";

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
    ["server_refused", "sends us elsewhere (302).", `The Jupyter server at ${url} sends us elsewhere (302).`],
  ] as const)("%s: %s", (code, said, reason) => {
    const error = new CellwrightError(code, `The Jupyter server at ${url} ${said}`);
    expect(commandLine.refuse({ error, options })).toEqual({
      message: `Failed to connect to Jupyter server at ${url}: ${reason}\nPlease check your configuration and ensure Jupyter server is running.`,
      exitCode: 1,
    });
  });

  test("settings that cannot be used are told in its words, mistakes on the command line in ours", () => {
    expect(commandLine.refuse({ error: new OptionError("SESSION_TTL `abc`: no") })?.message).toBe(
      "Invalid configuration: SESSION_TTL `abc`: no",
    );
    expect(commandLine.refuse({ error: new OptionError("--session-ttl `abc`: no") })).toBeUndefined();
    expect(commandLine.refuse({ error: new Error("anything") })).toBeUndefined();
  });
});

test("a .env counts where nothing is set, and only for its own names", () => {
  const cwd = mkdtempSync(join(tmpdir(), "cw-env-"));
  onTestFinished(() => rmSync(cwd, { recursive: true }));
  writeFileSync(
    join(cwd, ".env"),
    "JUPYTER_TOKEN='t'\nSESSION_TTL=5\nCELLWRIGHT_ALLOW_NET=*\nALLOWED_UPLOAD_DIRS=/a: :/b:\n",
  );
  expect(commandLine.environment({ SESSION_TTL: "7" }, cwd)).toEqual({
    JUPYTER_TOKEN: "t",
    SESSION_TTL: "7",
    CELLWRIGHT_ALLOWED_DIR: "/a,/b",
  });
  expect(commandLine.environment({ RESTORE_SESSIONS_ON_STARTUP: "perhaps" }, join(cwd, "none"))).toEqual({});
  expect(commandLine.environment({ RESTORE_SESSIONS_ON_STARTUP: "Yes" }, join(cwd, "none"))).toEqual({
    RESTORE_SESSIONS_ON_STARTUP: "true",
  });
});
