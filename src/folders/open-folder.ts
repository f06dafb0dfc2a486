import { existsSync } from "node:fs";
import type { OpenFolder } from "./folder.ts";
import { holdFolder } from "./held-folder.ts";
import { verifyFolder } from "./verified-folder.ts";

/** Linux can hold a directory open and work below it; the fallback elsewhere is to verify paths again. */
export const openFolder: OpenFolder = existsSync("/proc/self/fd") ? holdFolder : verifyFolder;
