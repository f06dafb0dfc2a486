/** jupyter-interpreter-mcp's list of names that usually hold secrets; a folder includes everything in it. */
const sensitive = [
  /(^|\/)\.env(\.\w+)?$/,
  /(^|\/)\.(ssh|gnupg|aws)(\/|$)/,
  /(^|\/)\.docker\/config\.json$/,
  /(^|\/)credentials(\.json|\.ya?ml)?$/,
  /(^|\/)\.(netrc|npmrc|pypirc|git-credentials)$/,
  /(^|\/)id_(rsa|ed25519|ecdsa)(\.pub)?$/,
  /(^|\/)(secret|token)s?(\.json|\.ya?ml|\.txt)?$/,
];

export function isSensitive(path: string): boolean {
  return sensitive.some((pattern) => pattern.test(path.toLowerCase()));
}

const binaryEndings = new Set(
  "png jpg jpeg gif bmp ico webp zip tar gz bz2 xz 7z rar pdf doc docx xls xlsx ppt pptx exe dll so dylib mp3 mp4 avi mov wav flac pyc pyo pkl pickle".split(
    " ",
  ),
);

export function isBinaryName(name: string): boolean {
  return binaryEndings.has(/[^.].*\.([^.]+)$/.exec(name.toLowerCase())?.[1] ?? "");
}

/** Names that a Jupyter server leaves out of its lists. */
export function isHiddenInLists(name: string): boolean {
  return isHidden(name) || name === "__pycache__" || /(\.pyc|\.pyo|~)$/.test(name);
}

/** Names that a Jupyter server does not open either. */
export function isHidden(path: string): boolean {
  return path.split("/").some((name) => name.startsWith("."));
}

/** The part after the last slash. */
export function baseName(path: string): string {
  return path.slice(path.lastIndexOf("/") + 1);
}
