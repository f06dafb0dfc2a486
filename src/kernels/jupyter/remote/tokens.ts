import { readFile } from "node:fs/promises";
import { OptionError } from "../../../options.ts";

/** The tokens of servers by their address, from a file with a line `URL TOKEN` for each; `#` begins a remark. */
export async function readTokens(file: string | undefined): Promise<(url: string) => string | undefined> {
  if (file === undefined) return () => undefined;
  const text = await readFile(file, "utf8").catch((error) => {
    throw new OptionError(`--jupyter-token-file: \`${file}\` cannot be read (${error.code ?? error.message}).`);
  });
  const tokens = new Map<string, string>();
  for (const [index, line] of text.split("\n").entries()) {
    const [url, token, ...more] = line.trim().split(/\s+/);
    if (!url || url.startsWith("#")) continue;
    // What stands there is not shown: it may be a token.
    if (!token || more.length > 0 || !URL.canParse(url)) {
      throw new OptionError(`--jupyter-token-file: line ${index + 1} of \`${file}\` is not a URL and a token.`);
    }
    tokens.set(addressOf(url), token);
  }
  return (url) => tokens.get(addressOf(url));
}

function addressOf(url: string): string {
  const { origin, pathname } = URL.canParse(url) ? new URL(url) : { origin: url, pathname: "" };
  return `${origin}${pathname.replace(/\/+$/, "")}`;
}

export async function readCertificates(file: string | undefined): Promise<string | undefined> {
  if (file === undefined) return undefined;
  const text = await readFile(file, "utf8").catch((error) => {
    throw new OptionError(`--jupyter-ca: \`${file}\` cannot be read (${error.code ?? error.message}).`);
  });
  if (text.includes("-----BEGIN CERTIFICATE-----")) return text;
  throw new OptionError(`--jupyter-ca: \`${file}\` holds no certificate in PEM format.`);
}
