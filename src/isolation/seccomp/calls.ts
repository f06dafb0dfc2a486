/** The number of a system call on x86-64 and on arm64; -1: does not exist. */
export type CallNumbers = readonly [x64: number, arm64: number];

/**
 * The newest call that was reviewed. Later ones are refused as unknown (ENOSYS), so that a new kernel adds no attack
 * surface; their numbers are the same on both architectures. With the refusals below, this amounts to an allowlist.
 */
export const NEWEST_KNOWN = 469;

/** Refused in every jail: calls that code does not need, and those that sandbox escapes have used. */
export const refusedCalls: Record<string, CallNumbers> = {
  // Other processes.
  ptrace: [101, 117],
  process_vm_readv: [310, 270],
  process_vm_writev: [311, 271],
  process_madvise: [440, 440],
  pidfd_getfd: [438, 438],
  kcmp: [312, 272],
  migrate_pages: [256, 238],
  move_pages: [279, 239],
  // Mounts.
  mount: [165, 40],
  umount2: [166, 39],
  pivot_root: [155, 41],
  open_tree: [428, 428],
  move_mount: [429, 429],
  fsopen: [430, 430],
  fsconfig: [431, 431],
  fsmount: [432, 432],
  fspick: [433, 433],
  mount_setattr: [442, 442],
  statmount: [457, 457],
  listmount: [458, 458],
  open_tree_attr: [467, 467],
  // Large parts of the kernel with a long record of vulnerabilities.
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
  memfd_secret: [447, 447],
  lsm_get_self_attr: [459, 459],
  lsm_set_self_attr: [460, 460],
  lsm_list_modules: [461, 461],
  // Files by handle instead of by path, which bypasses mounts.
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
  nfsservctl: [180, 42],
  iopl: [172, -1],
  ioperm: [173, -1],
  modify_ldt: [154, -1],
  uselib: [134, -1],
  sysfs: [139, -1],
  ustat: [136, -1],
  _sysctl: [156, -1],
};

/** Also refused, except for a program that builds its own sandbox inside, such as a browser. */
export const namespaceCalls: Record<string, CallNumbers> = {
  unshare: [272, 97],
  setns: [308, 268],
  chroot: [161, 51],
};

/** Refused without an IPC namespace: shared memory and queues by name. */
export const sharedCalls: Record<string, CallNumbers> = {
  shmget: [29, 194],
  shmat: [30, 196],
  shmctl: [31, 195],
  semget: [64, 190],
  semop: [65, 193],
  semctl: [66, 191],
  semtimedop: [220, 192],
  msgget: [68, 186],
  msgsnd: [69, 189],
  msgrcv: [70, 188],
  msgctl: [71, 187],
  mq_open: [240, 180],
  mq_unlink: [241, 181],
};

/** Refused where they cannot be limited per jail: the limit is per user, shared by all the user's programs. */
export const watchCalls: Record<string, CallNumbers> = {
  inotify_init: [253, -1],
  inotify_init1: [294, 26],
};

/** File attributes, which Landlock does not restrict: too rarely used in cells to have the gate judge them. */
export const attributeCalls: Record<string, CallNumbers> = {
  setxattr: [188, 5],
  lsetxattr: [189, 6],
  fsetxattr: [190, 7],
  removexattr: [197, 14],
  lremovexattr: [198, 15],
  fremovexattr: [199, 16],
  setxattrat: [463, 463],
  removexattrat: [466, 466],
  file_setattr: [469, 469],
  utime: [132, -1],
  utimes: [235, -1],
  futimesat: [261, -1],
};

/** Judged by the gate: mode, owner and times of files, which programs set when they copy and unpack. */
export const judgedFileCalls = {
  chown: [92, -1],
  lchown: [94, -1],
  fchown: [93, 55],
  fchownat: [260, 54],
  chmod: [90, -1],
  fchmod: [91, 52],
  fchmodat: [268, 53],
  fchmodat2: [452, 452],
  utimensat: [280, 88],
} satisfies Record<string, CallNumbers>;

/** Also judged, in folders that Landlock cannot grant as a whole: creating, moving, truncating or removing by name. */
export const judgedNameCalls = {
  creat: [85, -1],
  truncate: [76, 45],
  mkdir: [83, -1],
  mkdirat: [258, 34],
  mknod: [133, -1],
  mknodat: [259, 33],
  rmdir: [84, -1],
  unlink: [87, -1],
  unlinkat: [263, 35],
  symlink: [88, -1],
  symlinkat: [266, 36],
  link: [86, -1],
  linkat: [265, 37],
  rename: [82, -1],
  renameat: [264, 38],
  renameat2: [316, 276],
} satisfies Record<string, CallNumbers>;

const openCalls = { open: [2, -1], openat: [257, 56] } satisfies Record<string, CallNumbers>;

/** The same for opening files, unless the flags are read-only. `flags`: the index of that argument. */
export const judgedOpenCalls: Record<string, { numbers: CallNumbers; flags: number }> = {
  open: { numbers: openCalls.open, flags: 1 },
  openat: { numbers: openCalls.openat, flags: 2 },
};

/**
 * Writes, which the gate counts if there is a quota. `bytes`: the index of the size argument; absent: the sizes are in
 * memory.
 */
export const writeCalls: Record<string, { numbers: CallNumbers; bytes?: number }> = {
  write: { numbers: [1, 64], bytes: 2 },
  pwrite64: { numbers: [18, 68], bytes: 2 },
  writev: { numbers: [20, 66] },
  pwritev: { numbers: [296, 70] },
  pwritev2: { numbers: [328, 287] },
};

/** Copying from file to file. Refused if there is a quota: programs fall back to read and write. */
export const copyCalls: Record<string, CallNumbers> = {
  sendfile: [40, 71],
  splice: [275, 76],
  copy_file_range: [326, 285],
};

/** Only allowed if they do not change the owner. `user`: the index of that argument; the group follows. */
export const ownerCalls: Record<string, { numbers: CallNumbers; user: number }> = {
  chown: { numbers: judgedFileCalls.chown, user: 1 },
  lchown: { numbers: judgedFileCalls.lchown, user: 1 },
  fchown: { numbers: judgedFileCalls.fchown, user: 1 },
  fchownat: { numbers: judgedFileCalls.fchownat, user: 2 },
};

export interface OwnProcessCall {
  numbers: CallNumbers;
  /** The index of the pid argument; 0 is the caller itself. */
  argument: number;
  /** Only allowed if this argument has this value: others mean groups and users. */
  only?: { argument: number; value: number };
  /** Also allowed if this argument is null: then the call only reads. */
  unlessNull?: number;
  errno: number;
}

const EPERM = 1;
/** Libraries set the scheduling of their own threads by id, and abort if that fails: succeed without an effect. */
const IGNORED = 0;

/** Without a pid namespace, these may only change the caller. */
export const ownProcessCalls: Record<string, OwnProcessCall> = {
  prlimit64: { numbers: [302, 261], argument: 0, unlessNull: 2, errno: EPERM },
  sched_setaffinity: { numbers: [203, 122], argument: 0, errno: IGNORED },
  sched_setparam: { numbers: [142, 118], argument: 0, errno: IGNORED },
  sched_setscheduler: { numbers: [144, 119], argument: 0, errno: IGNORED },
  sched_setattr: { numbers: [314, 274], argument: 0, errno: IGNORED },
  setpriority: { numbers: [141, 140], argument: 1, only: { argument: 0, value: 0 }, errno: EPERM },
  ioprio_set: { numbers: [251, 30], argument: 1, only: { argument: 0, value: 1 }, errno: EPERM },
};

export interface ModeCall {
  numbers: CallNumbers;
  /** The index of the mode argument. */
  mode: number;
  /** Only relevant if this argument has one of these bits. */
  ifFlags?: { argument: number; bits: number };
}

/** O_CREAT and O_TMPFILE. */
const CREATES = 0o100 | 0o20000000;
/** The same, and O_WRONLY, O_RDWR and O_TRUNC. */
export const OPENS_FOR_WRITING = CREATES | 0o1 | 0o2 | 0o1000;

/** Calls that set a file's mode. */
export const modeCalls: Record<string, ModeCall> = {
  chmod: { numbers: judgedFileCalls.chmod, mode: 1 },
  fchmod: { numbers: judgedFileCalls.fchmod, mode: 1 },
  fchmodat: { numbers: judgedFileCalls.fchmodat, mode: 2 },
  fchmodat2: { numbers: judgedFileCalls.fchmodat2, mode: 2 },
  creat: { numbers: judgedNameCalls.creat, mode: 1 },
  open: { numbers: openCalls.open, mode: 2, ifFlags: { argument: 1, bits: CREATES } },
  openat: { numbers: openCalls.openat, mode: 3, ifFlags: { argument: 2, bits: CREATES } },
  mknod: { numbers: judgedNameCalls.mknod, mode: 1 },
  mknodat: { numbers: judgedNameCalls.mknodat, mode: 2 },
};

/** Calls whose arguments are checked. */
export const calls = {
  clone: [56, 220],
  socket: [41, 198],
  socketpair: [53, 199],
  connect: [42, 203],
  bind: [49, 200],
  sendto: [44, 206],
  sendmsg: [46, 211],
  sendmmsg: [307, 269],
  ioctl: [16, 29],
  fallocate: [285, 47],
  openat2: [437, 437],
  fcntl: [72, 25],
  listen: [50, 201],
  setsockopt: [54, 208],
  /** Its flags are in memory, which a filter cannot read; the C library falls back to `clone`. */
  clone3: [435, 435],
} satisfies Record<string, CallNumbers>;

export const signalCalls: Record<string, CallNumbers> = {
  kill: [62, 129],
  tgkill: [234, 131],
  tkill: [200, 130],
  rt_sigqueueinfo: [129, 138],
  rt_tgsigqueueinfo: [297, 240],
  pidfd_send_signal: [424, 424],
};
