import { readFile } from "node:fs/promises";
import { OptionError } from "../../../options/options.ts";

/** The token of each server: the same for all, or from `@FILE` with lines `URL TOKEN`; `#` starts a comment. */
export async function readTokens(token: string | undefined): Promise<(url: string) => string | undefined> {
  if (!token?.startsWith("@")) return () => token;
  const file = token.slice(1);
  const text = await readFile(file, "utf8").catch((error) => {
    throw new OptionError(`--jupyter-token: \`${file}\` cannot be read (${error.code ?? error.message}).`);
  });
  const tokens = new Map<string, string>();
  for (const [index, line] of text.split("\n").entries()) {
    const [url, value, ...more] = line.trim().split(/\s+/);
    if (!url || url.startsWith("#")) continue;
    // The line is not shown: it may contain a token.
    if (!value || more.length > 0 || !URL.canParse(url)) {
      throw new OptionError(`--jupyter-token: line ${index + 1} of \`${file}\` is not a URL and a token.`);
    }
    tokens.set(addressOf(url), value);
  }
  return (url) => tokens.get(addressOf(url));
}

function addressOf(url: string): string {
  const { origin, pathname } = URL.canParse(url) ? new URL(url) : { origin: url, pathname: "" };
  return `${origin}${pathname.replace(/\/+$/, "")}`;
}
