import { expect, test } from "vitest";
import { dataFolders, POOL_DATA_DIR } from "../../src/options/data-folders.ts";
import { defaultOptions } from "../../src/options/options.ts";

test("the folder of the pool, of sessions, and the default one are hidden beside a server's own", () => {
  const usual = defaultOptions().dataDir;
  const options = { dataDir: "/data/pool/18901", sessionsDir: "/sessions" };
  expect(dataFolders(options, { [POOL_DATA_DIR]: "/data" })).toEqual(["/data/pool/18901", "/sessions", "/data", usual]);
  expect(dataFolders({ dataDir: usual, sessionsDir: undefined }, {})).toEqual([usual]);
});
