import { createHash } from "node:crypto";
import { type ZipEntry, zip } from "./zip.ts";

export interface Wheel {
  name: string;
  version: string;
  file: string;
  data: Buffer;
  sha256: string;
  metadata: string;
  depends: string[];
}

export interface WheelOptions {
  version?: string;
  /** Modules and their source; default: one that contains its version. */
  files?: Record<string, string>;
  requires?: string[];
  extras?: string[];
  tag?: string;
  /** Members that a wheel should not have. */
  more?: ZipEntry[];
  /** Listed in RECORD, but missing. */
  missing?: string[];
}

export function wheel(name: string, options: WheelOptions = {}): Wheel {
  const { version = "1.0", requires = [], extras = [], tag = "py3-none-any", more = [], missing = [] } = options;
  const module = name.replaceAll("-", "_");
  const files = options.files ?? { [`${module}/__init__.py`]: `version = "${version}"\n` };
  const info = `${module}-${version}.dist-info`;
  const metadata = [
    "Metadata-Version: 2.1",
    `Name: ${name}`,
    `Version: ${version}`,
    ...extras.map((extra) => `Provides-Extra: ${extra}`),
    ...requires.map((requirement) => `Requires-Dist: ${requirement}`),
    "",
    "",
  ].join("\n");
  const members: ZipEntry[] = [
    ...Object.entries(files).map(([path, data]) => ({ name: path, data, mode: modeOf(path) })),
    { name: `${info}/METADATA`, data: metadata },
    { name: `${info}/WHEEL`, data: `Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: ${tag}\n` },
  ];
  const record = [...members.map((member) => member.name), ...missing, `${info}/RECORD`];
  members.push({ name: `${info}/RECORD`, data: record.map((path) => `${path},,\n`).join("") }, ...more);
  const data = zip(members);
  return {
    name,
    version,
    file: `${module}-${version}-${tag}.whl`,
    data,
    sha256: createHash("sha256").update(data).digest("hex"),
    metadata,
    depends: requires.map((requirement) => requirement.split(/[\s<>=!~;[]/)[0] ?? ""),
  };
}

/** Build tools make scripts executable in wheels; pip keeps that. */
function modeOf(path: string): number {
  return path.includes(".data/scripts/") ? 0o100755 : 0o100644;
}
