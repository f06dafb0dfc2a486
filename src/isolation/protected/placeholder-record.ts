import { randomBytes } from "node:crypto";
import {
  appendFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import type { Placeholder } from "./placeholders.ts";

/** Placeholders that one process has created in the user's folders. */
export interface PlaceholderList {
  pid: number;
  start: string | undefined;
  made: Placeholder[];
}

/** A file with one line per placeholder; the first line identifies the process. */
export class PlaceholderRecord {
  readonly file: string;

  constructor(folder: string) {
    this.file = join(folder, `${process.pid}-${randomBytes(4).toString("hex")}.ndjson`);
  }

  /** Written synchronously, so that after a crash the next process knows all placeholders. */
  add(made: Placeholder, start: string | undefined): void {
    if (!existsSync(this.file)) {
      mkdirSync(dirname(this.file), { recursive: true, mode: 0o700 });
      writeFileSync(this.file, line({ pid: process.pid, start }), { mode: 0o600 });
    }
    appendFileSync(this.file, line(made));
  }

  replace(made: Placeholder[], start: string | undefined): void {
    if (made.length === 0) {
      rmSync(this.file, { force: true });
      return;
    }
    const lines = [{ pid: process.pid, start }, ...made].map(line);
    writeFileSync(`${this.file}.tmp`, lines.join(""), { mode: 0o600 });
    renameSync(`${this.file}.tmp`, this.file);
  }
}

export function recordsIn(folder: string): string[] {
  if (!existsSync(folder)) return [];
  const names = readdirSync(folder).filter((name) => name.endsWith(".ndjson"));
  return names.map((name) => join(folder, name));
}

/** An incomplete last line is ignored. */
export function readRecord(file: string): PlaceholderList {
  const [owner, ...made] = readFileSync(file, "utf8").split("\n").flatMap(parsed);
  return { ...(owner as Omit<PlaceholderList, "made">), made: made as Placeholder[] };
}

function parsed(text: string): unknown[] {
  try {
    return [JSON.parse(text)];
  } catch {
    return [];
  }
}

function line(value: object): string {
  return `${JSON.stringify(value)}\n`;
}
