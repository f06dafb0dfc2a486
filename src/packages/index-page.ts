/** One file that a page of a package index names. */
export interface IndexFile {
  name: string;
  url: URL;
  sha256?: string | undefined;
}

/** The files on a page of a simple index, as JSON (PEP 691) or as HTML (PEP 503). */
export function filesOnPage(text: string, contentType: string, pageUrl: string): IndexFile[] {
  return contentType.includes("json") ? filesInJson(text, pageUrl) : filesInHtml(text, pageUrl);
}

function filesInJson(text: string, pageUrl: string): IndexFile[] {
  let page: { files?: { filename?: unknown; url?: unknown; hashes?: { sha256?: unknown } }[] };
  try {
    page = JSON.parse(text);
  } catch {
    return [];
  }
  return (Array.isArray(page?.files) ? page.files : []).flatMap(({ filename, url, hashes }) => {
    if (typeof filename !== "string" || typeof url !== "string" || !URL.canParse(url, pageUrl)) return [];
    const sha256 = typeof hashes?.sha256 === "string" ? hashes.sha256 : undefined;
    return [{ name: filename, url: new URL(url, pageUrl), sha256 }];
  });
}

function filesInHtml(text: string, pageUrl: string): IndexFile[] {
  return [...text.matchAll(/<a\s[^>]*?href\s*=\s*(["'])(.*?)\1/gi)].flatMap((match) => {
    const address = (match[2] ?? "").replaceAll("&amp;", "&");
    if (!URL.canParse(address, pageUrl)) return [];
    const url = new URL(address, pageUrl);
    const sha256 = /sha256=([0-9a-f]{64})/.exec(url.hash)?.[1];
    url.hash = "";
    return [{ name: decoded(url.pathname.split("/").at(-1) ?? ""), url, sha256 }];
  });
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
