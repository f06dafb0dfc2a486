/** Gives a file of a page an address of ours. */
export type Register = (name: string, url: URL) => string;

export interface ReaddressOptions {
  pageUrl: URL;
  register: Register;
}

export interface ReaddressedPage {
  text: string;
  /** Of its files. */
  names: string[];
}

/** A page of a simple index, JSON (PEP 691) or HTML (PEP 503), whose files have other addresses; the rest stays. */
export function readdressPage(text: string, contentType: string, options: ReaddressOptions): ReaddressedPage {
  return contentType.includes("json") ? readdressJson(text, options) : readdressHtml(text, options);
}

function readdressJson(text: string, { pageUrl, register }: ReaddressOptions): ReaddressedPage {
  const page = JSON.parse(text) as { files?: unknown };
  const files = (Array.isArray(page.files) ? page.files : []).flatMap((file: Record<string, unknown>) => {
    const { filename, url } = file ?? {};
    const target = typeof url === "string" ? targetOf(url, pageUrl) : undefined;
    return typeof filename === "string" && target ? [{ ...file, filename, url: register(filename, target) }] : [];
  });
  return { text: JSON.stringify({ ...page, files }), names: files.map(({ filename }) => filename) };
}

function readdressHtml(text: string, { pageUrl, register }: ReaddressOptions): ReaddressedPage {
  const base = /<base\s[^>]*?href\s*=\s*(["'])(.*?)\1[^>]*>/i.exec(text);
  const from = (base && targetOf(base[2] ?? "", pageUrl)) || pageUrl;
  const names: string[] = [];
  const readdressed = text
    .replace(base?.[0] ?? "", "")
    .replace(/(<a\s[^>]*?href\s*=\s*)(["'])(.*?)\2/gi, (_, before: string, quote: string, address: string) => {
      const target = targetOf(address.replaceAll("&amp;", "&"), from);
      if (!target) return `${before}${quote}#${quote}`;
      // What follows the # is the file's hash, which the installer checks.
      const { hash } = target;
      target.hash = "";
      const name = decodeURIComponent(target.pathname.split("/").at(-1) ?? "");
      names.push(name);
      return `${before}${quote}${register(name, target)}${hash}${quote}`;
    });
  return { text: readdressed, names };
}

function targetOf(address: string, from: URL): URL | undefined {
  const url = URL.canParse(address, from.href) ? new URL(address, from) : undefined;
  return url && ["http:", "https:"].includes(url.protocol) ? url : undefined;
}
