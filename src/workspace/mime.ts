/** File name endings and what they mean. Of several endings with one type, the first is the one we give to new files. */
const types: Record<string, string> = {
  txt: "text/plain",
  log: "text/plain",
  md: "text/markdown",
  csv: "text/csv",
  tsv: "text/tab-separated-values",
  html: "text/html",
  htm: "text/html",
  css: "text/css",
  xml: "application/xml",
  json: "application/json",
  jsonl: "application/x-ndjson",
  ndjson: "application/x-ndjson",
  geojson: "application/geo+json",
  yaml: "application/yaml",
  yml: "application/yaml",
  toml: "application/toml",
  ini: "text/plain",
  cfg: "text/plain",
  tex: "application/x-tex",
  ipynb: "application/x-ipynb+json",

  py: "text/x-python",
  pyi: "text/x-python",
  sh: "application/x-sh",
  js: "text/javascript",
  mjs: "text/javascript",
  ts: "text/x-typescript",
  tsx: "text/x-typescript",
  sql: "application/sql",
  r: "text/x-r",
  c: "text/x-c",
  h: "text/x-c",
  cpp: "text/x-c++",
  java: "text/x-java",
  go: "text/x-go",
  rs: "text/x-rust",
  wasm: "application/wasm",

  png: "image/png",
  jpg: "image/jpeg",
  jpeg: "image/jpeg",
  gif: "image/gif",
  webp: "image/webp",
  svg: "image/svg+xml",
  bmp: "image/bmp",
  tif: "image/tiff",
  tiff: "image/tiff",
  ico: "image/x-icon",
  pdf: "application/pdf",
  mp3: "audio/mpeg",
  wav: "audio/wav",
  ogg: "audio/ogg",
  mp4: "video/mp4",
  webm: "video/webm",

  parquet: "application/vnd.apache.parquet",
  arrow: "application/vnd.apache.arrow.file",
  feather: "application/vnd.apache.arrow.file",
  h5: "application/x-hdf5",
  hdf5: "application/x-hdf5",
  nc: "application/x-netcdf",
  npy: "application/x-npy",
  npz: "application/x-npz",
  pkl: "application/x-pickle",
  pickle: "application/x-pickle",
  db: "application/vnd.sqlite3",
  sqlite: "application/vnd.sqlite3",
  xls: "application/vnd.ms-excel",
  xlsx: "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
  docx: "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
  pptx: "application/vnd.openxmlformats-officedocument.presentationml.presentation",
  ods: "application/vnd.oasis.opendocument.spreadsheet",

  zip: "application/zip",
  whl: "application/zip",
  gz: "application/gzip",
  tgz: "application/gzip",
  tar: "application/x-tar",
  bz2: "application/x-bzip2",
  xz: "application/x-xz",
  zst: "application/zstd",
  "7z": "application/x-7z-compressed",
  bin: "application/octet-stream",
};

const byEnding = new Map(Object.entries(types));
const byType = new Map(
  Object.entries(types)
    .reverse()
    .map(([ending, type]) => [type, ending]),
);

export function mimeTypeOf(path: string): string {
  const name = path.slice(path.lastIndexOf("/") + 1);
  const dot = name.lastIndexOf(".");
  const ending = dot < 1 ? "" : name.slice(dot + 1).toLowerCase();
  return byEnding.get(ending) ?? "application/octet-stream";
}

/** The ending for a new file of this type, without the dot. */
export function endingFor(mimeType: string): string {
  const type = mimeType.split(";", 1)[0]?.trim().toLowerCase() ?? "";
  const known = byType.get(type);
  if (known) return known;
  if (type.endsWith("+json")) return "json";
  if (type.endsWith("+xml")) return "xml";
  return type.startsWith("text/") ? "txt" : "bin";
}
