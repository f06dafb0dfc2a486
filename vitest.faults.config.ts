import { mergeConfig } from "vitest/config";
import config from "./vitest.config.ts";

/** As `npm test`, but for the suites of `npm run faults`. */
export default mergeConfig(
  { ...config, test: { ...config.test, include: [] } },
  { test: { include: ["test/**/*.faults.ts"] } },
);
