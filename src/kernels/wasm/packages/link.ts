import { constants, copyFileSync, linkSync, mkdirSync } from "node:fs";
import { readdir, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import { setImmediate } from "node:timers/promises";
import { normalName } from "../../../packages/requirement.ts";
import { packageError } from "./failure.ts";
import { type Image, openImage } from "./image.ts";

/** Files per turn of the event loop: some milliseconds. Linking asynchronously, one by one, takes ten times longer. */
const BATCH = 256;

/**
 * Hard-links an image's packages into a session's `site` folder, where they can be imported at once. Links take no
 * space and survive the image. Existing files are kept. Another version of a package is an error, reported before
 * anything changes.
 */
export async function linkInto(image: Image, siteDir: string): Promise<void> {
  const sealed = await openImage(dirname(image.siteDir));
  if (!sealed) throw packageError("The packages were removed meanwhile.", "Request them again.");
  const [there, wanted] = await Promise.all([installedIn(siteDir), installedIn(image.siteDir)]);
  const clashes = [...wanted].filter(([name, version]) => (there.get(name) ?? version) !== version);
  if (clashes.length > 0) {
    const conflicts = clashes.map(([name, version]) => `${name} ${there.get(name)}, not ${version}`);
    throw packageError(
      `This session already has ${conflicts.join("; ")}.`,
      "Reset the session to install other versions; its variables are lost, its files stay.",
    );
  }
  const made: string[] = [];
  try {
    const paths = sealed.files.map(([path]) => path);
    for (const folder of new Set(paths.map((path) => dirname(path)))) {
      mkdirSync(join(siteDir, folder), { recursive: true, mode: 0o755 });
    }
    // A package's metadata last: it marks the package as installed.
    const isMetadata = (path: string) => path.includes(".dist-info/");
    const ordered = [...paths.filter((path) => !isMetadata(path)), ...paths.filter(isMetadata)];
    for (const [index, path] of ordered.entries()) {
      const target = join(siteDir, path);
      if (linkFile(join(image.siteDir, path), target)) made.push(target);
      if (index % BATCH === BATCH - 1) await setImmediate();
    }
  } catch (error) {
    await Promise.all(made.map((path) => rm(path, { force: true })));
    throw error;
  }
}

/** False if the target exists. */
function linkFile(from: string, to: string): boolean {
  try {
    linkSync(from, to);
    return true;
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code;
    if (code === "EEXIST") return false;
    // Another disk, a file system without hard links, or too many links to the file.
    if (!["EXDEV", "EPERM", "ENOTSUP", "EMLINK", "ENOSYS"].includes(code ?? "")) throw error;
  }
  try {
    copyFileSync(from, to, constants.COPYFILE_EXCL);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EEXIST") return false;
    throw error;
  }
}

/** Packages and versions, from the names of their metadata folders. */
async function installedIn(siteDir: string): Promise<Map<string, string>> {
  const found = new Map<string, string>();
  for (const name of await readdir(siteDir).catch(() => [])) {
    const match = /^(.+)-([^-]+)\.dist-info$/.exec(name);
    if (match?.[1] && match[2]) found.set(normalName(match[1]), match[2]);
  }
  return found;
}
