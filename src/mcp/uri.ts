/** Files of sessions as resources: `cell://{session_id}/{path}`, and `cell://{session_id}/.outputs/{name}` for what cells showed. */

/** RFC 6570; `+` keeps the slashes of a nested path. */
export const fileUriTemplate = "cell://{session_id}/{+path}";

export function fileUri(sessionId: string, path: string): string {
  return `cell://${sessionId}/${path.toWellFormed().split("/").map(encodeURIComponent).join("/")}`;
}

/** Undefined if it is no such URI. The path is decoded once and not checked: whoever opens it does that. */
export function parseFileUri(uri: string): { sessionId: string; path: string } | undefined {
  const match = /^cell:\/\/([^/?#]+)\/([^?#]+)$/.exec(uri);
  if (!match?.[1] || !match[2]) return undefined;
  try {
    return { sessionId: decodeURIComponent(match[1]), path: decodeURIComponent(match[2]) };
  } catch {
    return undefined;
  }
}
