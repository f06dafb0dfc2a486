/**
 * A value that is kept as JSON text until a kernel takes it: parsed, it can take many times the memory, and a cell may
 * wait for long. Writing it as JSON gives the value itself.
 */
export class JsonText {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }

  toJSON(): unknown {
    return JSON.parse(this.text);
  }
}

/** Replaces the lists and objects in a record by their text, in place: whoever else holds the record lets go of them. */
export function packValues(record: unknown): void {
  if (typeof record !== "object" || record === null || Array.isArray(record)) return;
  for (const [name, value] of Object.entries(record)) {
    if (typeof value !== "object" || value === null) continue;
    const packed = { value: new JsonText(JSON.stringify(value)), enumerable: true, configurable: true, writable: true };
    // Not by assignment, which for `__proto__` is something else.
    Object.defineProperty(record, name, packed);
  }
}
