import { createHash } from "node:crypto";

/** MIME types of outputs. Files get the first extension listed for their type. */
const endings: [ending: string, mimeType: string][] = [
  ["txt", "text/plain"],
  ["html", "text/html"],
  ["md", "text/markdown"],
  ["tex", "text/latex"],
  ["csv", "text/csv"],
  ["js", "application/javascript"],
  ["json", "application/json"],
  ["xml", "application/xml"],
  ["png", "image/png"],
  ["jpg", "image/jpeg"],
  ["jpeg", "image/jpeg"],
  ["gif", "image/gif"],
  ["webp", "image/webp"],
  ["bmp", "image/bmp"],
  ["svg", "image/svg+xml"],
  ["pdf", "application/pdf"],
  ["mp3", "audio/mpeg"],
  ["wav", "audio/wav"],
  ["mp4", "video/mp4"],
  ["webm", "video/webm"],
  ["bin", "application/octet-stream"],
];

/** No slash, no leading dot: a matching id cannot lead out of the sessions folder. */
const idPattern = /^[A-Za-z0-9_-]{1,64}$/;
const namePattern = /^[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}$/;
const uriPattern = /^cell:\/\/([^/]+)\/\.outputs\/([^/]+)$/;

export function isSessionId(text: string): boolean {
  return idPattern.test(text);
}

/** Throws for anything but a plain name. Names come from our own code, so a bad one is a bug and not a bad request. */
export function blobUri(sessionId: string, name: string): string {
  if (!idPattern.test(sessionId) || !namePattern.test(name))
    throw new Error(`Bad output name \`${sessionId}/${name}\`.`);
  return `cell://${sessionId}/.outputs/${name}`;
}

/** URIs come from clients. Undefined for any that `blobUri` does not make. */
export function parseBlobUri(uri: string): { sessionId: string; name: string } | undefined {
  const [, sessionId = "", name = ""] = uriPattern.exec(uri) ?? [];
  return idPattern.test(sessionId) && namePattern.test(name) ? { sessionId, name } : undefined;
}

/** Content-addressed: the same bytes of the same type are kept once. */
export function blobName(bytes: Uint8Array, mimeType: string): string {
  return `${createHash("sha256").update(bytes).digest("hex").slice(0, 40)}.${endingFor(mimeType)}`;
}

export function mimeTypeOf(name: string): string {
  const ending = name.slice(name.lastIndexOf(".") + 1);
  return endings.find(([known]) => known === ending)?.[1] ?? "application/octet-stream";
}

function endingFor(mimeType: string): string {
  const type = mimeType.split(";", 1)[0]?.trim().toLowerCase() ?? "";
  const known = endings.find(([, other]) => other === type)?.[0];
  if (known) return known;
  if (type.endsWith("+json")) return "json";
  return type.startsWith("text/") ? "txt" : "bin";
}
