/** Sound and films come within a page for a player, which is of no use to a model: the file in it is. */
const embedded =
  /<(?:audio|video|source)\b[^<>]{0,300}?\bsrc\s*=\s*["']data:((?:audio|video)\/[\w.+-]{1,60})[^,"']{0,60};base64,/i;
/** Where the player begins, at the latest. */
const READ_CHARS = 2_000;

export function embeddedMedia(html: string): { mimeType: string; bytes: Buffer } | undefined {
  const found = embedded.exec(html.slice(0, READ_CHARS));
  if (!found?.[1]) return undefined;
  const start = found.index + found[0].length;
  const end = html.slice(start).search(/["']/);
  const bytes = Buffer.from(html.slice(start, end < 0 ? undefined : start + end), "base64");
  return bytes.length > 0 ? { mimeType: found[1].toLowerCase(), bytes } : undefined;
}
