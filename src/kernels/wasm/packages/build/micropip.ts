import { readFile } from "node:fs/promises";
import { basename } from "node:path";
import type { IndexAddress } from "../../../../packages/index-address.ts";
import { filesOnPage } from "../../../../packages/index-page.ts";
import { packageError } from "../failure.ts";
import type { Distribution } from "./distribution.ts";
import type { Downloads } from "./downloads.ts";

/** We use private parts of micropip: only releases of this series are known to have them. */
const SERIES = "0.11.";

interface MicropipSources {
  folderFiles: string[];
  distribution: Distribution;
  index: Promise<IndexAddress | undefined>;
  downloads: Downloads;
}

/** Finds micropip's own wheel in the same three sources as any package. */
export async function findMicropip({
  folderFiles,
  distribution,
  downloads,
  index: indexing,
}: MicropipSources): Promise<string> {
  const inFolder = newest(folderFiles.filter((file) => isMicropip(basename(file))));
  if (inFolder) return inFolder;

  const obstacles: string[] = [];
  const locked = distribution.packages.micropip;
  if (locked && isMicropip(locked.file_name)) {
    const result = await downloads.fetch(new URL(locked.file_name, distribution.url).href);
    if (result.kind === "unreachable") obstacles.push(`Pyodide's distribution could not be reached (${result.reason})`);
    else if (result.status !== 200) obstacles.push(`Pyodide's distribution answered with status ${result.status}`);
    else if (result.sha256 !== locked.sha256) throw tampered("Pyodide's distribution");
    else return result.file;
  }

  const index = await indexing;
  if (!index) obstacles.push("no package index is known");
  else {
    const page = await downloads.fetch(`${index.url.replace(/\/$/, "")}/micropip/`, { page: true });
    if (page.kind === "unreachable") obstacles.push(`the package index could not be reached (${page.reason})`);
    else {
      const text = page.status === 200 ? await readFile(page.file, "utf8") : "";
      const wheels = filesOnPage(text, page.contentType, page.url).filter(({ name }) => isMicropip(name));
      const name = newest(wheels.map((wheel) => wheel.name));
      const wheel = wheels.find((candidate) => candidate.name === name);
      if (!wheel) obstacles.push("the package index does not have it");
      else {
        const result = await downloads.fetch(wheel.url.href);
        if (result.kind === "unreachable") obstacles.push(`its file could not be fetched (${result.reason})`);
        else if (result.status !== 200) obstacles.push(`its file's server answered with status ${result.status}`);
        else if (wheel.sha256 && result.sha256 !== wheel.sha256) throw tampered("the package index");
        else return result.file;
      }
    }
  }
  throw packageError(
    `Cannot install packages without micropip ${SERIES}x, which was not found: ${obstacles.join("; ")}.`,
    "Check the network, HTTPS_PROXY and the certificates (SSL_CERT_FILE); name an index with --package-index or a copy " +
      "of Pyodide's distribution with --pyodide-base-url; or put micropip's wheel into the folder of --package-dir.",
  );
}

function isMicropip(file: string): boolean {
  return file.startsWith(`micropip-${SERIES}`) && file.endsWith("-py3-none-any.whl");
}

function newest(files: string[]): string | undefined {
  const release = (file: string) => Number(/-0\.11\.(\d+)/.exec(basename(file))?.[1] ?? -1);
  return files.toSorted((a, b) => release(b) - release(a))[0];
}

function tampered(origin: string) {
  return packageError(
    `micropip was refused: the hash of the file from ${origin} differs from the expected one.`,
    "It may have been altered in transit. Try again; if that does not help, do not trust this server.",
  );
}
