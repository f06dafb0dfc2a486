/**
 * A filter of system calls, built here so that no library is needed: a program for the kernel's classic BPF machine, in
 * the form that `bwrap --seccomp` and seccomp(2) take. It refuses what code in a jail has no use for and what breaking
 * out of one has begun with. The namespaces stand without it.
 */

const archs: Record<string, Arch> = {
  x64: { audit: 0xc000003e, column: 0, clone: 56, socket: 41, ioctl: 16 },
  arm64: { audit: 0xc00000b7, column: 1, clone: 220, socket: 198, ioctl: 29 },
};

interface Arch {
  /** What the kernel calls it in `seccomp_data.arch`. */
  audit: number;
  column: 0 | 1;
  clone: number;
  socket: number;
  ioctl: number;
}

/** The number of each refused call on x86-64 and on arm64; -1 where it does not exist. */
export const refusedCalls: Record<string, readonly [x64: number, arm64: number]> = {
  // Other processes.
  ptrace: [101, 117],
  process_vm_readv: [310, 270],
  process_vm_writev: [311, 271],
  pidfd_getfd: [438, 438],
  kcmp: [312, 272],
  // Namespaces and mounts.
  unshare: [272, 97],
  setns: [308, 268],
  mount: [165, 40],
  umount2: [166, 39],
  pivot_root: [155, 41],
  chroot: [161, 51],
  open_tree: [428, 428],
  move_mount: [429, 429],
  fsopen: [430, 430],
  fsconfig: [431, 431],
  fsmount: [432, 432],
  fspick: [433, 433],
  mount_setattr: [442, 442],
  open_tree_attr: [467, 467],
  // Large parts of the kernel with a long record of mistakes.
  bpf: [321, 280],
  perf_event_open: [298, 241],
  userfaultfd: [323, 282],
  io_uring_setup: [425, 425],
  io_uring_enter: [426, 426],
  io_uring_register: [427, 427],
  add_key: [248, 217],
  request_key: [249, 218],
  keyctl: [250, 219],
  fanotify_init: [300, 262],
  // Files by number instead of by path, which walks around mounts.
  name_to_handle_at: [303, 264],
  open_by_handle_at: [304, 265],
  // The machine itself.
  kexec_load: [246, 104],
  kexec_file_load: [320, 294],
  init_module: [175, 105],
  finit_module: [313, 273],
  delete_module: [176, 106],
  reboot: [169, 142],
  swapon: [167, 224],
  swapoff: [168, 225],
  acct: [163, 89],
  quotactl: [179, 60],
  quotactl_fd: [443, 443],
  syslog: [103, 116],
  vhangup: [153, 58],
  lookup_dcookie: [212, 18],
  settimeofday: [164, 170],
  clock_settime: [227, 112],
  adjtimex: [159, 171],
  clock_adjtime: [305, 266],
  iopl: [172, -1],
  ioperm: [173, -1],
  modify_ldt: [154, -1],
  uselib: [134, -1],
};

/**
 * Room on the disk without writing to it, a file's worth in an instant, which is faster than anybody can look. Programs
 * then write instead, as on file systems that do not have it.
 */
const fallocate = [285, 47] as const;
/** The same as requests: XFS's names for it, which other file systems know, too. */
const RESERVING = [0x4030_5828, 0x4030_582a, 0x4030_5839];
/** The same number everywhere. Its flags are in memory, where a filter cannot look: the C library then uses `clone`. */
const CLONE3 = 435;
/** All CLONE_NEW… flags: time, mount, cgroup, UTS, IPC, user, pid and network namespaces. */
const NEW_NAMESPACE = 0x7e02_0080;
/** The families of sockets that programs use. Packets, the virtual machine's host, the kernel's ciphers are not among them. */
const AF_UNIX = 1;
const AF_INET = 2;
const AF_INET6 = 10;
const AF_NETLINK = 16;
/** Of netlink only the protocol with which interfaces are listed. */
const NETLINK_ROUTE = 0;
/** Typing into a terminal in its user's name. */
const TIOCSTI = 0x5412;
const TIOCLINUX = 0x541c;
/** Calls of the x32 ABI have this bit, and numbers of their own. */
const X32_BIT = 0x4000_0000;

const EPERM = 1;
const ENOSYS = 38;
const EAFNOSUPPORT = 97;
const EOPNOTSUPP = 95;

/** The filter for this processor as `struct sock_filter[]`, or nothing where its system calls are not known to us. */
export function seccompFilter(arch: string = process.arch): Uint8Array | undefined {
  const known = archs[arch];
  if (!known) return undefined;
  const { audit, column, clone, socket, ioctl } = known;
  const program: Instruction[] = [
    load(ARCH),
    jumpIfEqual(audit, 1, 0),
    give(KILL_PROCESS),
    load(NUMBER),
    ...(arch === "x64" ? [jumpIfAtLeast(X32_BIT, 0, 1), give(KILL_PROCESS)] : []),
    jumpIfEqual(CLONE3, 0, 1),
    give(refuse(ENOSYS)),
  ];
  const unlessEqual = (value: number, then: Instruction[]) => [jumpIfEqual(value, 0, then.length), ...then];
  program.push(
    ...unlessEqual(clone, [load(argument(0)), jumpIfAnyBit(NEW_NAMESPACE, 0, 1), give(refuse(EPERM)), give(ALLOW)]),
    ...unlessEqual(socket, [
      load(argument(0)),
      jumpIfEqual(AF_UNIX, 5, 0),
      jumpIfEqual(AF_INET, 4, 0),
      jumpIfEqual(AF_INET6, 3, 0),
      jumpIfEqual(AF_NETLINK, 0, 3),
      load(argument(2)),
      jumpIfEqual(NETLINK_ROUTE, 0, 1),
      give(ALLOW),
      give(refuse(EAFNOSUPPORT)),
    ]),
    ...unlessEqual(ioctl, [
      load(argument(1)),
      ...RESERVING.map((request, index) => jumpIfEqual(request, RESERVING.length + 2 - index, 0)),
      jumpIfEqual(TIOCSTI, 1, 0),
      jumpIfEqual(TIOCLINUX, 0, 2),
      give(refuse(EPERM)),
      give(refuse(EOPNOTSUPP)),
      give(ALLOW),
    ]),
    ...unlessEqual(fallocate[column], [give(refuse(EOPNOTSUPP))]),
  );
  const numbers = Object.values(refusedCalls)
    .map((row) => row[column])
    .filter((number) => number >= 0);
  // Each jumps over the others and over ALLOW to the refusal at the end: a jump reaches 255 instructions.
  numbers.forEach((number, index) => {
    program.push(jumpIfEqual(number, numbers.length - index, 0));
  });
  program.push(give(ALLOW), give(refuse(EPERM)));
  return encode(program);
}

type Instruction = [code: number, ifTrue: number, ifFalse: number, value: number];

const LOAD_WORD = 0x20;
const JUMP_EQUAL = 0x15;
const JUMP_AT_LEAST = 0x35;
const JUMP_ANY_BIT = 0x45;
const RETURN = 0x06;

/** Places in `struct seccomp_data`. */
const NUMBER = 0;
const ARCH = 4;

const ALLOW = 0x7fff_0000;
const KILL_PROCESS = 0x8000_0000;
const ERRNO = 0x0005_0000;

/** The lower half of an argument, which is all that flags, families and requests have. */
const argument = (index: number): number => 16 + 8 * index;
const refuse = (errno: number): number => ERRNO | errno;
const load = (offset: number): Instruction => [LOAD_WORD, 0, 0, offset];
const give = (verdict: number): Instruction => [RETURN, 0, 0, verdict];
const jumpIfEqual = (value: number, yes: number, no: number): Instruction => [JUMP_EQUAL, yes, no, value];
const jumpIfAtLeast = (value: number, yes: number, no: number): Instruction => [JUMP_AT_LEAST, yes, no, value];
const jumpIfAnyBit = (bits: number, yes: number, no: number): Instruction => [JUMP_ANY_BIT, yes, no, bits];

function encode(program: Instruction[]): Uint8Array {
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
