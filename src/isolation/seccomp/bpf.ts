/**
 * A small assembler for classic BPF, as far as seccomp filters need it. Conditions contain what they guard, so there
 * are neither labels nor jumps to elsewhere.
 */

type Instruction = readonly [code: number, ifTrue: number, ifFalse: number, value: number];
export type Program = Instruction[];

const LOAD_WORD = 0x20;
const AND = 0x54;
const RETURN = 0x06;
const IF_EQUAL = 0x15;
const IF_AT_LEAST = 0x35;
const IF_ANY_BIT = 0x45;
/** Range of a conditional jump. */
const MAX_JUMP = 255;

export const load = (offset: number): Program => [[LOAD_WORD, 0, 0, offset]];
export const and = (mask: number): Program => [[AND, 0, 0, mask]];
export const give = (verdict: number): Program => [[RETURN, 0, 0, verdict]];

export function ifAtLeast(value: number, ...parts: Program[]): Program {
  const body = parts.flat();
  return [[IF_AT_LEAST, 0, body.length, value], ...body];
}

export function ifAnyBit(bits: number, ...parts: Program[]): Program {
  const body = parts.flat();
  return [[IF_ANY_BIT, 0, body.length, bits], ...body];
}

export function ifOneOf(values: number[], ...parts: Program[]): Program {
  const body = parts.flat();
  const last = values.length - 1;
  const tests = values.map((value, index) => {
    return [IF_EQUAL, last - index, index === last ? body.length : 0, value] as const;
  });
  return values.length === 0 ? [] : [...tests, ...body];
}

export function ifNoneOf(values: number[], ...parts: Program[]): Program {
  const body = parts.flat();
  const end = values.length - 1 + body.length;
  return [...values.map((value, index) => [IF_EQUAL, end - index, 0, value] as const), ...body];
}

/** The program as `struct sock_filter[]`. */
export function assemble(...parts: Program[]): Uint8Array {
  const program = parts.flat();
  const bytes = new Uint8Array(program.length * 8);
  const view = new DataView(bytes.buffer);
  program.forEach(([code, ifTrue, ifFalse, value], index) => {
    if (ifTrue > MAX_JUMP || ifFalse > MAX_JUMP) throw new Error("a condition is too far from its end for a jump");
    view.setUint16(index * 8, code, true);
    view.setUint8(index * 8 + 2, ifTrue);
    view.setUint8(index * 8 + 3, ifFalse);
    view.setUint32(index * 8 + 4, value, true);
  });
  return bytes;
}
