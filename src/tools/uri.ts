/** URIs of session files, `cell://{session_id}/{path}`, and of kept outputs, `cell://{session_id}/.outputs/{name}`. */

/** RFC 6570; `+` keeps the slashes of a nested path. */
export const fileUriTemplate = "cell://{session_id}/{+path}";

export function fileUri(sessionId: string, path: string): string {
  return `cell://${sessionId}/${path.toWellFormed().split("/").map(encodeURIComponent).join("/")}`;
}

/** Undefined for any other URI. The path is decoded once and not validated: the workspace does that. */
export function parseFileUri(uri: string): { sessionId: string; path: string } | undefined {
  const match = /^cell:\/\/([^/?#]+)\/([^?#]+)$/.exec(uri);
  if (!match?.[1] || !match[2]) return undefined;
  try {
    return { sessionId: decodeURIComponent(match[1]), path: decodeURIComponent(match[2]) };
  } catch {
    return undefined;
  }
}
