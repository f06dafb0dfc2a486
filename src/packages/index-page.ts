import { decoded } from "./index-address.ts";

/** One file on a page of a package index. */
export interface IndexFile {
  name: string;
  url: URL;
  sha256?: string | undefined;
}

/** The files on a page of a simple index; empty if the page is something else. */
export function filesOnPage(text: string, contentType: string, pageUrl: string): IndexFile[] {
  const files: IndexFile[] = [];
  const collect = (file: IndexFile) => {
    files.push(file);
    return "";
  };
  try {
    readdressPage(text, contentType, { pageUrl, addressOf: collect });
  } catch {
    return [];
  }
  return files;
}

interface Readdressing {
  pageUrl: string;
  /** The new address of a file. */
  addressOf(file: IndexFile): string;
}

/** Replaces the file addresses on a page of a simple index, JSON (PEP 691) or HTML (PEP 503). */
export function readdressPage(text: string, contentType: string, readdressing: Readdressing): string {
  return contentType.includes("json") ? readdressJson(text, readdressing) : readdressHtml(text, readdressing);
}

function readdressJson(text: string, { pageUrl, addressOf }: Readdressing): string {
  const page = JSON.parse(text) as { files?: unknown };
  const files = (Array.isArray(page.files) ? page.files : []).flatMap((file: Record<string, unknown>) => {
    const { filename, url: address, hashes } = file ?? {};
    const url = typeof address === "string" ? targetOf(address, pageUrl) : undefined;
    if (typeof filename !== "string" || !url) return [];
    const { sha256 } = (hashes ?? {}) as { sha256?: unknown };
    const found = { name: filename, url, sha256: typeof sha256 === "string" ? sha256 : undefined };
    return [{ ...file, url: addressOf(found) }];
  });
  return JSON.stringify({ ...page, files });
}

function readdressHtml(text: string, { pageUrl, addressOf }: Readdressing): string {
  const base = /<base\s[^>]*?href\s*=\s*(["'])(.*?)\1[^>]*>/i.exec(text);
  const from = (base && targetOf(base[2] ?? "", pageUrl)?.href) || pageUrl;
  return text
    .replace(base?.[0] ?? "", "")
    .replace(/(<a\s[^>]*?href\s*=\s*)(["'])(.*?)\2/gi, (_, before: string, quote: string, address: string) => {
      const url = targetOf(address.replaceAll("&amp;", "&"), from);
      if (!url) return `${before}${quote}#${quote}`;
      // The fragment is the file's hash, which an installer checks.
      const { hash } = url;
      url.hash = "";
      const sha256 = /sha256=([0-9a-f]{64})/.exec(hash)?.[1];
      const name = decoded(url.pathname.split("/").at(-1) ?? "");
      return `${before}${quote}${addressOf({ name, url, sha256 })}${hash}${quote}`;
    });
}

function targetOf(address: string, from: string): URL | undefined {
  const url = URL.canParse(address, from) ? new URL(address, from) : undefined;
  return url && ["http:", "https:"].includes(url.protocol) ? url : undefined;
}
