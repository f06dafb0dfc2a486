/**
 * A value kept as JSON text until a kernel takes it: parsed, it can need many times the memory, and a cell may wait long
 * in its queue. `JSON.stringify` writes the value itself.
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

/** Replaces the lists and objects in a record by their text, in place: other references must not keep them alive. */
export function packValues(record: unknown): void {
  if (typeof record !== "object" || record === null || Array.isArray(record)) return;
  for (const [name, value] of Object.entries(record)) {
    if (typeof value !== "object" || value === null) continue;
    const packed = { value: new JsonText(JSON.stringify(value)), enumerable: true, configurable: true, writable: true };
    // Assignment to `__proto__` would set the prototype.
    Object.defineProperty(record, name, packed);
  }
}
