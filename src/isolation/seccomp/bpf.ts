/** A small assembler for classic BPF, as far as seccomp filters need it. */

export type Step =
  | { do: "load"; offset: number }
  | { do: "and"; mask: number }
  | { do: "jump"; if: "equal" | "atLeast" | "anyBit"; value: number; to: string }
  | { do: "goto"; to: string }
  | { do: "return"; verdict: number }
  | { do: "label"; name: string };

export const load = (offset: number): Step => ({ do: "load", offset });
export const and = (mask: number): Step => ({ do: "and", mask });
export const ifEqual = (value: number, to: string): Step => ({ do: "jump", if: "equal", value, to });
export const ifAtLeast = (value: number, to: string): Step => ({ do: "jump", if: "atLeast", value, to });
export const ifAnyBit = (value: number, to: string): Step => ({ do: "jump", if: "anyBit", value, to });
export const goto = (to: string): Step => ({ do: "goto", to });
export const give = (verdict: number): Step => ({ do: "return", verdict });
export const label = (name: string): Step => ({ do: "label", name });

const LOAD_WORD = 0x20;
const AND = 0x54;
const GOTO = 0x05;
const RETURN = 0x06;
const jumps = { equal: 0x15, atLeast: 0x35, anyBit: 0x45 };
/** Range of a conditional jump. */
const MAX_JUMP = 255;

type Instruction = [code: number, ifTrue: number, ifFalse: number, value: number];

/** The program as `struct sock_filter[]`. BPF only jumps forward, so labels follow their jumps. */
export function assemble(steps: Step[]): Uint8Array {
  const places = new Map<string, number>();
  let count = 0;
  for (const step of steps) {
    if (step.do === "label") places.set(step.name, count);
    else count += 1;
  }
  const program: Instruction[] = [];
  for (const step of steps) {
    if (step.do !== "label") program.push(encode(step, (name) => distance(name, program.length)));
  }
  return toBytes(program);

  function distance(name: string, from: number): number {
    const place = places.get(name);
    const ahead = place === undefined ? -1 : place - from - 1;
    if (ahead < 0) throw new Error(`there is no label ${name} ahead`);
    return ahead;
  }
}

function encode(step: Exclude<Step, { do: "label" }>, distance: (name: string) => number): Instruction {
  switch (step.do) {
    case "load":
      return [LOAD_WORD, 0, 0, step.offset];
    case "and":
      return [AND, 0, 0, step.mask];
    case "return":
      return [RETURN, 0, 0, step.verdict];
    case "goto":
      return [GOTO, 0, 0, distance(step.to)];
    case "jump": {
      const ahead = distance(step.to);
      if (ahead > MAX_JUMP) throw new Error(`${step.to} is too far away for a jump`);
      return [jumps[step.if], ahead, 0, step.value];
    }
  }
}

function toBytes(program: Instruction[]): Uint8Array {
  const bytes = new Uint8Array(program.length * 8);
  const view = new DataView(bytes.buffer);
  program.forEach(([code, ifTrue, ifFalse, value], index) => {
    view.setUint16(index * 8, code, true);
    view.setUint8(index * 8 + 2, ifTrue);
    view.setUint8(index * 8 + 3, ifFalse);
    view.setUint32(index * 8 + 4, value, true);
  });
  return bytes;
}
