import { describe, expect, test } from "vitest";
import { NEWEST_KNOWN, namespaceCalls, refusedCalls } from "../../../src/isolation/seccomp/calls.ts";
import { seccompFilter } from "../../../src/isolation/seccomp/seccomp.ts";

const ALLOW = "allow";
const archs = [
  { arch: "x64", audit: 0xc000003e, column: 0, numbers: { clone: 56, socket: 41, ioctl: 16, read: 0, fallocate: 285 } },
  {
    arch: "arm64",
    audit: 0xc00000b7,
    column: 1,
    numbers: { clone: 220, socket: 198, ioctl: 29, read: 63, fallocate: 47 },
  },
] as const;

describe.each(archs)("the filter of $arch", ({ arch, audit, column, numbers }) => {
  const filter = seccompFilter({ arch });
  const judge = (number: number, ...args: number[]) => run(filter, { number, audit, args });

  test("refuses what is in its table and what is newer than it, and nothing else", () => {
    const refused = new Set(Object.values({ ...refusedCalls, ...namespaceCalls }).map((row) => row[column]));
    for (let number = 0; number < 500; number += 1) {
      // Their arguments are in memory, which a filter cannot read.
      const isUnknown = number === 435 || number === 437 || number > NEWEST_KNOWN;
      const expected = refused.has(number) ? "errno 1" : isUnknown ? "errno 38" : ALLOW;
      if (number === numbers.socket || number === numbers.fallocate) continue;
      expect({ number, verdict: judge(number) }).toEqual({ number, verdict: expected });
    }
  });

  test("lets threads and processes be made, but no namespaces", () => {
    const threadFlags = 0x3d0f00;
    const sigchld = 17;
    expect(judge(numbers.clone, threadFlags)).toBe(ALLOW);
    expect(judge(numbers.clone, sigchld)).toBe(ALLOW);
    for (const flag of [0x80, 0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000]) {
      expect(judge(numbers.clone, flag | sigchld)).toBe("errno 1");
    }
  });

  test("knows the families of sockets that programs use", () => {
    const [unix, inet, inet6, netlink] = [1, 2, 10, 16];
    for (const family of [unix, inet, inet6]) expect(judge(numbers.socket, family, 1, 0)).toBe(ALLOW);
    const [tcp, udp, sctp, udpLite, mptcp] = [6, 17, 132, 136, 262];
    for (const protocol of [tcp, udp]) expect(judge(numbers.socket, inet, 1, protocol)).toBe(ALLOW);
    for (const protocol of [sctp, udpLite, mptcp]) expect(judge(numbers.socket, inet, 1, protocol)).toBe("errno 97");
    expect(judge(numbers.socket, netlink, 3, 0)).toBe(ALLOW);
    const [audits, packet, cipher, machine] = [9, 17, 38, 40];
    expect(judge(numbers.socket, netlink, 3, audits)).toBe("errno 97");
    for (const family of [packet, cipher, machine, 0]) expect(judge(numbers.socket, family)).toBe("errno 97");
  });

  test("lets a terminal be used, but not be typed into", () => {
    expect(judge(numbers.ioctl, 0, 0x5401)).toBe(ALLOW);
    expect(judge(numbers.ioctl, 0, 0x5412)).toBe("errno 1");
    expect(judge(numbers.ioctl, 0, 0x541c)).toBe("errno 1");
  });

  test("gives no room on a disk that nothing is written to", () => {
    expect(judge(numbers.fallocate)).toBe("errno 95");
    for (const request of [0x40305828, 0x4030582a, 0x40305839])
      expect(judge(numbers.ioctl, 0, request)).toBe("errno 95");
  });

  test("ends what speaks another processor's language", () => {
    expect(run(filter, { number: numbers.read, audit: 0x40000003, args: [] })).toBe("kill");
    if (arch === "x64") expect(judge(0x4000_0000 | numbers.read)).toBe("kill");
  });
});

test("there is no filter for a processor whose calls are not known", () => {
  expect(() => seccompFilter({ arch: "mips" })).toThrow("system calls of mips are not known");
});

/** The kernel's BPF machine, as far as the filter uses it. */
function run(filter: Uint8Array, call: { number: number; audit: number; args: number[] }): string {
  const data = new DataView(new ArrayBuffer(64));
  data.setUint32(0, call.number, true);
  data.setUint32(4, call.audit, true);
  call.args.forEach((value, index) => {
    data.setUint32(16 + 8 * index, value, true);
  });
  const program = new DataView(filter.buffer);
  let word = 0;
  for (let at = 0; ; at += 1) {
    const [code, yes, no] = [
      program.getUint16(at * 8, true),
      program.getUint8(at * 8 + 2),
      program.getUint8(at * 8 + 3),
    ];
    const value = program.getUint32(at * 8 + 4, true);
    if (code === 0x20) word = data.getUint32(value, true);
    else if (code === 0x15) at += word === value ? yes : no;
    else if (code === 0x35) at += word >= value ? yes : no;
    else if (code === 0x45) at += (word & value) !== 0 ? yes : no;
    else if (code === 0x54) word = (word & value) >>> 0;
    else if (code === 0x05) at += value;
    else if (code === 0x06) return verdict(value);
    else throw new Error(`no such instruction: ${code}`);
  }
}

function verdict(value: number): string {
  if (value === 0x7fff0000) return ALLOW;
  if (value === 0x80000000) return "kill";
  return `errno ${value & 0xffff}`;
}
