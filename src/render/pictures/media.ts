/** Audio and video come as an HTML player with an embedded file: the file is what is useful. */
const embedded =
  /<(?:audio|video|source)\b[^<>]{0,300}?\bsrc\s*=\s*["']data:((?:audio|video)\/[\w.+-]{1,60})[^,"']{0,60};base64,/i;
/** How far to search for the player. */
const READ_CHARS = 2_000;

export function embeddedMedia(html: string): { mimeType: string; bytes: Buffer } | undefined {
  const found = embedded.exec(html.slice(0, READ_CHARS));
  if (!found?.[1]) return undefined;
  const start = found.index + found[0].length;
  const end = html.slice(start).search(/["']/);
  const bytes = Buffer.from(html.slice(start, end < 0 ? undefined : start + end), "base64");
  return bytes.length > 0 ? { mimeType: found[1].toLowerCase(), bytes } : undefined;
}
