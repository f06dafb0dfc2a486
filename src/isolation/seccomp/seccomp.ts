/**
 * Seccomp filters, built without a library: classic BPF programs in the form that `bwrap --seccomp` and seccomp(2)
 * accept. Unknown system calls are refused; calls.ts lists the known ones.
 */

import { and, assemble, give, goto, ifAnyBit, ifAtLeast, ifEqual, label, load, type Step } from "./bpf.ts";
import {
  attributeCalls,
  type CallNumbers,
  calls,
  copyCalls,
  judgedFileCalls,
  judgedNameCalls,
  judgedOpenCalls,
  type ModeCall,
  modeCalls,
  NEWEST_KNOWN,
  namespaceCalls,
  OPENS_FOR_WRITING,
  type OwnProcessCall,
  ownerCalls,
  ownProcessCalls,
  refusedCalls,
  sharedCalls,
  signalCalls,
  watchCalls,
  writeCalls,
} from "./calls.ts";

/** The value of an architecture in `seccomp_data.arch`, and its column in the tables. */
const archs: Record<string, { audit: number; column: 0 | 1 }> = {
  x64: { audit: 0xc000003e, column: 0 },
  arm64: { audit: 0xc00000b7, column: 1 },
};

/**
 * Which sockets a jailed process may create. `namespace`: all, in its own network. `gated`: the same without datagrams,
 * and the gate judges each connection (python/gate/). `unix`: only its session's Unix sockets, also judged. `proxied`:
 * these, and TCP to the proxy.
 */
export type Sockets = "namespace" | "gated" | "unix" | "proxied";

export interface FilterOptions {
  sockets?: Sockets;
  /** Namespaces isolate its processes, shared memory and queues. */
  apart?: boolean;
  /** It may create namespaces, to build its own sandbox inside. */
  nests?: boolean;
  /** Landlock before version 3 does not restrict `truncate` by path. */
  truncates?: boolean;
  /** False if nothing limits its number of inotify instances, which its user shares. */
  watches?: boolean;
  /** False if there is no gate to judge its connections. */
  connects?: boolean;
  arch?: string;
}

/** All CLONE_NEW… flags: time, mount, cgroup, UTS, IPC, user, pid and network namespaces. */
export const NEW_NAMESPACE = 0x7e02_0080;
const AF_UNIX = 1;
const AF_INET = 2;
const AF_INET6 = 10;
const AF_NETLINK = 16;
const SOCK_STREAM = 1;
const SOCK_SEQPACKET = 5;
const SOCKET_TYPE = 0xf;
/** The only netlink protocol allowed: it lists interfaces. */
const NETLINK_ROUTE = 0;
/** Unspecified, ICMP, TCP, UDP, ICMPv6: others load kernel modules or are little tested. */
const PROTOCOLS = [0, 1, 6, 17, 58];
/** The setuid and setgid bits of a file's mode. */
const SET_ID = 0o6000;
/** Connects while sending. */
const MSG_FASTOPEN = 0x2000_0000;
/** Injects input into a terminal. */
const TIOCSTI = 0x5412;
const TIOCLINUX = 0x541c;
/** Make the kernel send signals to another process. */
const F_SETOWN = 8;
const F_SETOWN_EX = 15;
const FIOSETOWN = 0x8901;
const SIOCSPGRP = 0x8902;
/**
 * Reserve disk space instantly without writing: XFS's ioctls for `fallocate`, which other file systems support, too.
 * Programs fall back to writing.
 */
const RESERVING = [0x4030_5828, 0x4030_582a, 0x4030_5839];
/** SO_SNDBUF, SO_RCVBUF and their FORCE variants: kernel memory that is not counted for a process. */
const SOL_SOCKET = 1;
const BUFFER_SIZES = [7, 8, 32, 33];
/** Threads constantly write this much to an eventfd to wake each other up: too little to count for a disk. */
const WAKE_BYTES = 8;
/** Set in system call numbers of the x32 ABI. */
const X32_BIT = 0x4000_0000;

const EPERM = 1;
const ENOSYS = 38;
const EAFNOSUPPORT = 97;
const EOPNOTSUPP = 95;

/** Offsets in `struct seccomp_data`. */
const NUMBER = 0;
const ARCH = 4;
/** The lower half of an argument: flags, families and requests have 32 bits. */
const argument = (index: number): number => 16 + 8 * index;
const upperHalf = (index: number): number => 20 + 8 * index;

const ALLOW = 0x7fff_0000;
const ASK = 0x7fc0_0000;
const KILL_PROCESS = 0x8000_0000;
const refuse = (errno: number): number => 0x0005_0000 | errno;

/** The filter for an architecture; undefined if it is not supported. */
export function seccompFilter(options: FilterOptions = {}): Uint8Array | undefined {
  const { sockets = "namespace", apart = true, nests = false, arch = process.arch } = options;
  const known = archs[arch];
  if (!known) return undefined;
  const { column } = known;
  const refused = {
    ...refusedCalls,
    ...(nests ? {} : namespaceCalls),
    ...(apart ? {} : sharedCalls),
    ...(options.watches === false ? watchCalls : {}),
    ...(options.truncates === false ? { truncate: calls.truncate } : {}),
    ...(options.connects === false ? { connect: calls.connect } : {}),
  };
  const on = (call: CallNumbers, body: Step[]) => onCall(call[column], body);
  return assemble([
    ...checkProcessor(arch),
    ...on(calls.clone3, [give(refuse(ENOSYS))]),
    ...(nests
      ? []
      : on(calls.clone, [load(argument(0)), ifAnyBit(NEW_NAMESPACE, "clone/no"), ...verdicts("clone", EPERM)])),
    ...on(calls.socket, socketCheck(sockets)),
    ...(sockets === "namespace" ? [] : judgedConnections(on)),
    ...(apart
      ? []
      : on(calls.fcntl, [
          load(argument(1)),
          ...[F_SETOWN, F_SETOWN_EX].map((request) => ifEqual(request, "fcntl/no")),
          ...verdicts("fcntl", EPERM),
        ])),
    ...on(calls.ioctl, [
      load(argument(1)),
      ...RESERVING.map((request) => ifEqual(request, "ioctl/unsupported")),
      ...[TIOCSTI, TIOCLINUX].map((request) => ifEqual(request, "ioctl/no")),
      ...(apart ? [] : [FIOSETOWN, SIOCSPGRP].map((request) => ifEqual(request, "ioctl/no"))),
      ...verdicts("ioctl", EPERM),
      label("ioctl/unsupported"),
      give(refuse(EOPNOTSUPP)),
    ]),
    ...on(calls.setsockopt, [
      load(argument(1)),
      ifEqual(SOL_SOCKET, "setsockopt/socket"),
      give(ALLOW),
      label("setsockopt/socket"),
      load(argument(2)),
      ...BUFFER_SIZES.map((name) => ifEqual(name, "setsockopt/no")),
      // Succeeds without an effect, as where a limit applies.
      ...verdicts("setsockopt", 0),
    ]),
    ...on(calls.fallocate, [give(refuse(EOPNOTSUPP))]),
    ...Object.entries(modeCalls).flatMap(([name, row]) => on(row.numbers, noSetId(name, row))),
    // Its mode is in memory, which a filter cannot read: programs fall back to `openat`.
    ...on(calls.openat2, [give(refuse(ENOSYS))]),
    ...(apart ? [] : Object.entries(ownProcessCalls).flatMap(([name, row]) => on(row.numbers, ownOnly(name, row)))),
    ...(apart ? [] : Object.entries(ownerCalls).flatMap(([name, row]) => on(row.numbers, sameOwner(name, row.user)))),
    ifAtLeast(NEWEST_KNOWN + 1, "unknown"),
    ...(apart ? [] : numbersOf(attributeCalls, column).map((number) => ifEqual(number, "unsupported"))),
    ...numbersOf(refused, column).map((number) => ifEqual(number, "refused")),
    give(ALLOW),
    label("refused"),
    give(refuse(EPERM)),
    label("unknown"),
    give(refuse(ENOSYS)),
    label("unsupported"),
    give(refuse(EOPNOTSUPP)),
  ]);
}

/** The filter that asks the gate, and the numbers by which python/gate/gate.py identifies the calls. */
export interface GateFilter {
  filter: Uint8Array;
  calls: Record<string, number>;
}

export interface GateOptions {
  /** Judge its connections. */
  connections: boolean;
  /** The gate also creates its TCP sockets; listening on them is refused. */
  tcp: boolean;
  /** Judge signals: an old Landlock does not restrict them. */
  signals: boolean;
  /** Judge modes and times of files: without mounts, nothing else restricts them. */
  files: boolean;
  /** Judge names in folders that Landlock cannot grant as a whole. */
  names: boolean;
  /** Count what it writes. */
  quota: boolean;
  arch?: string;
}

export function gateFilter(options: GateOptions): GateFilter | undefined {
  const { connections, tcp, signals, files, names, quota, arch = process.arch } = options;
  const known = archs[arch];
  if (!known) return undefined;
  const { column } = known;
  const numbers = present({
    ...(connections ? { connect: calls.connect[column] } : {}),
    ...(tcp ? { listen: calls.listen[column] } : {}),
    ...(signals ? numbersByName(signalCalls, column) : {}),
    ...(files ? numbersByName(judgedFileCalls, column) : {}),
    ...(names ? numbersByName(judgedNameCalls, column) : {}),
  });
  const opens = names ? Object.entries(judgedOpenCalls) : [];
  const writes = quota ? Object.entries(writeCalls) : [];
  const filter = assemble([
    ...checkProcessor(arch),
    ...Object.values(numbers).map((number) => ifEqual(number, "ask")),
    ...opens.flatMap(([, { numbers: row, flags }]) =>
      onCall(row[column], [load(argument(flags)), ifAnyBit(OPENS_FOR_WRITING, "ask"), give(ALLOW)]),
    ),
    ...writes.flatMap(([, { numbers: row, bytes }]) =>
      onCall(
        row[column],
        bytes === undefined
          ? [give(ASK)]
          : [
              load(upperHalf(bytes)),
              ifAtLeast(1, "ask"),
              load(argument(bytes)),
              ifAtLeast(WAKE_BYTES + 1, "ask"),
              give(ALLOW),
            ],
      ),
    ),
    ...(quota ? numbersOf(copyCalls, column).flatMap((number) => onCall(number, [give(refuse(ENOSYS))])) : []),
    ...(tcp
      ? onCall(calls.socket[column], [
          load(argument(0)),
          ifEqual(AF_INET, "ask"),
          ifEqual(AF_INET6, "ask"),
          give(ALLOW),
        ])
      : []),
    give(ALLOW),
    label("ask"),
    give(ASK),
  ]);
  const byName = (rows: [string, { numbers: CallNumbers }][]) =>
    present(Object.fromEntries(rows.map(([name, row]) => [name, row.numbers[column]])));
  return {
    filter,
    calls: { ...numbers, ...byName(opens), ...byName(writes), ...(tcp ? { socket: calls.socket[column] } : {}) },
  };
}

/** Allows Unix sockets only. */
export function noNetworkFilter(arch: string = process.arch): Uint8Array | undefined {
  const known = archs[arch];
  if (!known) return undefined;
  return assemble([
    ...checkProcessor(arch),
    ...onCall(calls.socket[known.column], [
      load(argument(0)),
      ifEqual(AF_UNIX, "socket/yes"),
      give(refuse(EAFNOSUPPORT)),
      label("socket/yes"),
      give(ALLOW),
    ]),
    give(ALLOW),
  ]);
}

function checkProcessor(arch: string): Step[] {
  return [
    load(ARCH),
    ifEqual(archs[arch]?.audit ?? 0, "processor"),
    give(KILL_PROCESS),
    label("processor"),
    load(NUMBER),
    ...(arch === "x64" ? [ifAtLeast(X32_BIT, "x32"), goto("number"), label("x32"), give(KILL_PROCESS)] : []),
    label("number"),
  ];
}

/** `body` must always end in a verdict: it overwrites the loaded call number. */
function onCall(number: number, body: Step[]): Step[] {
  if (number < 0) return [];
  const [then, past] = [`then/${number}`, `past/${number}`];
  return [ifEqual(number, then), goto(past), label(then), ...body, label(past)];
}

function verdicts(name: string, errno: number): Step[] {
  return [give(ALLOW), label(`${name}/no`), give(refuse(errno))];
}

function socketCheck(sockets: Sockets): Step[] {
  const families = [
    ifEqual(AF_UNIX, "socket/unix"),
    ...(sockets === "unix" ? [] : [ifEqual(AF_INET, "socket/inet"), ifEqual(AF_INET6, "socket/inet")]),
    ...(sockets === "namespace" || sockets === "gated" ? [ifEqual(AF_NETLINK, "socket/netlink")] : []),
  ];
  const anyType = sockets === "namespace";
  const types = (name: string, allowed: number[]): Step[] => [
    label(name),
    ...(anyType
      ? []
      : [
          load(argument(1)),
          and(SOCKET_TYPE),
          ...allowed.map((type) => ifEqual(type, `${name}/type`)),
          give(refuse(EPERM)),
        ]),
    label(`${name}/type`),
  ];
  return [
    load(argument(0)),
    ...families,
    give(refuse(EAFNOSUPPORT)),
    ...types("socket/unix", [SOCK_STREAM, SOCK_SEQPACKET]),
    give(ALLOW),
    ...types("socket/inet", [SOCK_STREAM]),
    load(argument(2)),
    ...PROTOCOLS.map((protocol) => ifEqual(protocol, "socket/yes")),
    give(refuse(EAFNOSUPPORT)),
    label("socket/netlink"),
    load(argument(2)),
    ifEqual(NETLINK_ROUTE, "socket/yes"),
    give(refuse(EAFNOSUPPORT)),
    label("socket/yes"),
    give(ALLOW),
  ];
}

/** Only `connect` may reach an address: blocks datagram pairs, and sends that connect. */
function judgedConnections(on: (call: CallNumbers, body: Step[]) => Step[]): Step[] {
  const flagsAt = { sendto: 3, sendmsg: 2, sendmmsg: 3 };
  return [
    // All others can be sent to an address, including those that turn into datagrams.
    ...on(calls.socketpair, [
      load(argument(1)),
      and(SOCKET_TYPE),
      ...[SOCK_STREAM, SOCK_SEQPACKET].map((type) => ifEqual(type, "pair/yes")),
      give(refuse(EPERM)),
      label("pair/yes"),
      give(ALLOW),
    ]),
    ...Object.entries(flagsAt).flatMap(([name, index]) =>
      on(calls[name as keyof typeof flagsAt], [
        load(argument(index)),
        ifAnyBit(MSG_FASTOPEN, `${name}/no`),
        ...verdicts(name, EOPNOTSUPP),
      ]),
    ),
  ];
}

/** A setuid program would run with the rights of the server's user on the host. */
function noSetId(name: string, { mode, ifFlags }: ModeCall): Step[] {
  const unlessCreating = ifFlags
    ? [load(argument(ifFlags.argument)), ifAnyBit(ifFlags.bits, `${name}/mode`), give(ALLOW), label(`${name}/mode`)]
    : [];
  return [...unlessCreating, load(argument(mode)), ifAnyBit(SET_ID, `${name}/no`), ...verdicts(name, EPERM)];
}

function sameOwner(name: string, user: number): Step[] {
  const unchanged = 0xffff_ffff;
  return [
    load(argument(user)),
    ...[unchanged, process.getuid?.() ?? 0].map((id) => ifEqual(id, `${name}/user`)),
    give(refuse(EPERM)),
    label(`${name}/user`),
    load(argument(user + 1)),
    ...[unchanged, process.getgid?.() ?? 0].map((id) => ifEqual(id, `${name}/group`)),
    give(refuse(EPERM)),
    label(`${name}/group`),
    give(ALLOW),
  ];
}

function ownOnly(name: string, { argument: index, only, unlessNull, errno }: OwnProcessCall): Step[] {
  const pointer =
    unlessNull === undefined
      ? []
      : [
          load(argument(unlessNull)),
          ifAtLeast(1, `${name}/no`),
          load(upperHalf(unlessNull)),
          ifAtLeast(1, `${name}/no`),
          give(ALLOW),
        ];
  const kind = only
    ? [load(argument(only.argument)), ifEqual(only.value, `${name}/kind`), give(refuse(errno)), label(`${name}/kind`)]
    : [];
  return [
    ...kind,
    load(argument(index)),
    ifAtLeast(1, `${name}/other`),
    give(ALLOW),
    label(`${name}/other`),
    ...(pointer.length > 0 ? pointer : []),
    label(`${name}/no`),
    give(refuse(errno)),
  ];
}

function numbersByName(table: Record<string, CallNumbers>, column: 0 | 1): Record<string, number> {
  return Object.fromEntries(Object.entries(table).map(([name, row]) => [name, row[column]]));
}

/** Without calls that this processor does not have. */
function present(numbers: Record<string, number>): Record<string, number> {
  return Object.fromEntries(Object.entries(numbers).filter(([, number]) => number >= 0));
}

function numbersOf(table: Record<string, CallNumbers>, column: 0 | 1): number[] {
  return Object.values(table)
    .map((row) => row[column])
    .filter((number) => number >= 0);
}
