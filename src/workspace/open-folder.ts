import { existsSync } from "node:fs";
import type { OpenFolder } from "./folder.ts";
import { holdFolder } from "./held-folder.ts";
import { verifyFolder } from "./verified-folder.ts";

/** Linux can hold a directory and work below it; elsewhere the best there is are paths that are checked again. */
export const openFolder: OpenFolder = existsSync("/proc/self/fd") ? holdFolder : verifyFolder;
