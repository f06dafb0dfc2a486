import { readFileSync } from "node:fs";

/** Read from package.json, so that it is written once. */
export const version: string = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8")).version;
