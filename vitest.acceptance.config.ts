import { mergeConfig } from "vitest/config";
import config from "./vitest.config.ts";

/** As `npm test`, but for the cases of the systems that we replace, one test for each id. */
export default mergeConfig(
  { ...config, test: { ...config.test, include: [] } },
  // Tests that run at the same time start a server each, some with a Jupyter server beside it.
  { test: { include: ["test/acceptance/**/*.accept.ts"], maxConcurrency: 3 } },
);
