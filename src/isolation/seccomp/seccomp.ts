/**
 * Seccomp filters, built without a library: classic BPF programs in the form that `bwrap --seccomp` and seccomp(2)
 * accept. Unknown system calls are refused; calls.ts lists the known ones.
 */

import { and, assemble, give, ifAnyBit, ifAtLeast, ifNoneOf, ifOneOf, load, type Program } from "./bpf.ts";
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

const allow = give(0x7fff_0000);
const ask = give(0x7fc0_0000);
const killProcess = give(0x8000_0000);
const refuse = (errno: number): Program => give(0x0005_0000 | errno);

/** The filter for an architecture. Throws if it is not supported. */
export function seccompFilter(options: FilterOptions = {}): Uint8Array {
  const { sockets = "namespace", apart = true, nests = false, arch = process.arch } = options;
  const { column } = architecture(arch);
  const refused = {
    ...refusedCalls,
    ...(nests ? {} : namespaceCalls),
    ...(apart ? {} : sharedCalls),
    ...(options.watches === false ? watchCalls : {}),
    ...(options.truncates === false ? { truncate: judgedNameCalls.truncate } : {}),
    ...(options.connects === false ? { connect: calls.connect } : {}),
  };
  const on: OnCall = (call, ...body) => onCall(call[column], ...body);
  return assemble(
    checkProcessor(arch),
    on(calls.clone3, refuse(ENOSYS)),
    nests ? [] : on(calls.clone, load(argument(0)), ifAnyBit(NEW_NAMESPACE, refuse(EPERM)), allow),
    on(calls.socket, socketCheck(sockets)),
    sockets === "namespace" ? [] : judgedConnections(on),
    apart ? [] : on(calls.fcntl, load(argument(1)), ifOneOf([F_SETOWN, F_SETOWN_EX], refuse(EPERM)), allow),
    on(
      calls.ioctl,
      load(argument(1)),
      ifOneOf(RESERVING, refuse(EOPNOTSUPP)),
      ifOneOf([TIOCSTI, TIOCLINUX, ...(apart ? [] : [FIOSETOWN, SIOCSPGRP])], refuse(EPERM)),
      allow,
    ),
    on(
      calls.setsockopt,
      load(argument(1)),
      ifNoneOf([SOL_SOCKET], allow),
      load(argument(2)),
      // Succeeds without an effect, as where a limit applies.
      ifOneOf(BUFFER_SIZES, refuse(0)),
      allow,
    ),
    on(calls.fallocate, refuse(EOPNOTSUPP)),
    ...Object.values(modeCalls).map((row) => on(row.numbers, noSetId(row))),
    // Its mode is in memory, which a filter cannot read: programs fall back to `openat`.
    on(calls.openat2, refuse(ENOSYS)),
    ...(apart ? [] : Object.values(ownProcessCalls).map((row) => on(row.numbers, ownOnly(row)))),
    ...(apart ? [] : Object.values(ownerCalls).map((row) => on(row.numbers, sameOwner(row.user)))),
    ifAtLeast(NEWEST_KNOWN + 1, refuse(ENOSYS)),
    apart ? [] : ifOneOf(numbersOf(attributeCalls, column), refuse(EOPNOTSUPP)),
    ifOneOf(numbersOf(refused, column), refuse(EPERM)),
    allow,
  );
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

export function gateFilter(options: GateOptions): GateFilter {
  const { connections, tcp, signals, files, names, quota, arch = process.arch } = options;
  const { column } = architecture(arch);
  const on: OnCall = (call, ...body) => onCall(call[column], ...body);
  const always: Record<string, CallNumbers> = {
    ...(connections && { connect: calls.connect }),
    ...(tcp && { listen: calls.listen }),
    ...(signals && signalCalls),
    ...(files && judgedFileCalls),
    ...(names && judgedNameCalls),
  };
  const opens = names ? judgedOpenCalls : {};
  const writes = quota ? writeCalls : {};
  const filter = assemble(
    checkProcessor(arch),
    ifOneOf(numbersOf(always, column), ask),
    ...Object.values(opens).map(({ numbers, flags }) =>
      on(numbers, load(argument(flags)), ifAnyBit(OPENS_FOR_WRITING, ask), allow),
    ),
    ...Object.values(writes).map(({ numbers, bytes }) => on(numbers, bytes === undefined ? ask : askIfLong(bytes))),
    quota ? ifOneOf(numbersOf(copyCalls, column), refuse(ENOSYS)) : [],
    tcp ? on(calls.socket, load(argument(0)), ifOneOf([AF_INET, AF_INET6], ask), allow) : [],
    allow,
  );
  const sometimes = Object.entries({ ...opens, ...writes }).map(([name, { numbers }]) => [name, numbers] as const);
  const all = { ...always, ...Object.fromEntries(sometimes), ...(tcp && { socket: calls.socket }) };
  return { filter, calls: numbersByName(all, column) };
}

/** Allows Unix sockets only. */
export function noNetworkFilter(arch: string = process.arch): Uint8Array {
  return assemble(
    checkProcessor(arch),
    onCall(
      calls.socket[architecture(arch).column],
      load(argument(0)),
      ifNoneOf([AF_UNIX], refuse(EAFNOSUPPORT)),
      allow,
    ),
    allow,
  );
}

function architecture(name: string): { audit: number; column: 0 | 1 } {
  const found = archs[name];
  if (!found) throw new Error(`system calls of ${name} are not known`);
  return found;
}

function checkProcessor(arch: string): Program {
  return [
    load(ARCH),
    ifNoneOf([architecture(arch).audit], killProcess),
    load(NUMBER),
    arch === "x64" ? ifAtLeast(X32_BIT, killProcess) : [],
  ].flat();
}

type OnCall = (call: CallNumbers, ...body: Program[]) => Program;

/** `body` must always end in a verdict: it overwrites the loaded call number. */
function onCall(number: number, ...body: Program[]): Program {
  return number < 0 ? [] : ifOneOf([number], ...body);
}

function socketCheck(sockets: Sockets): Program {
  const onlyTypes = (...types: number[]) =>
    sockets === "namespace" ? [] : [load(argument(1)), and(SOCKET_TYPE), ifNoneOf(types, refuse(EPERM))].flat();
  const onlyProtocols = (...protocols: number[]) =>
    [load(argument(2)), ifOneOf(protocols, allow), refuse(EAFNOSUPPORT)].flat();
  return [
    load(argument(0)),
    ifOneOf([AF_UNIX], onlyTypes(SOCK_STREAM, SOCK_SEQPACKET), allow),
    sockets === "unix" ? [] : ifOneOf([AF_INET, AF_INET6], onlyTypes(SOCK_STREAM), onlyProtocols(...PROTOCOLS)),
    sockets === "namespace" || sockets === "gated" ? ifOneOf([AF_NETLINK], onlyProtocols(NETLINK_ROUTE)) : [],
    refuse(EAFNOSUPPORT),
  ].flat();
}

/** Only `connect` may reach an address: blocks datagram pairs, and sends that connect. */
function judgedConnections(on: OnCall): Program {
  const noFastOpen = (flags: number) =>
    [load(argument(flags)), ifAnyBit(MSG_FASTOPEN, refuse(EOPNOTSUPP)), allow].flat();
  // All other pairs can be sent to an address, including those that turn into datagrams.
  const connected = ifNoneOf([SOCK_STREAM, SOCK_SEQPACKET], refuse(EPERM));
  return [
    on(calls.socketpair, load(argument(1)), and(SOCKET_TYPE), connected, allow),
    on(calls.sendto, noFastOpen(3)),
    on(calls.sendmsg, noFastOpen(2)),
    on(calls.sendmmsg, noFastOpen(3)),
  ].flat();
}

/** A setuid program would run with the rights of the server's user on the host. */
function noSetId({ mode, ifFlags }: ModeCall): Program {
  const check = [load(argument(mode)), ifAnyBit(SET_ID, refuse(EPERM)), allow].flat();
  if (!ifFlags) return check;
  return [load(argument(ifFlags.argument)), ifAnyBit(ifFlags.bits, check), allow].flat();
}

function sameOwner(user: number): Program {
  const unchanged = 0xffff_ffff;
  return [
    load(argument(user)),
    ifNoneOf([unchanged, process.getuid?.() ?? 0], refuse(EPERM)),
    load(argument(user + 1)),
    ifNoneOf([unchanged, process.getgid?.() ?? 0], refuse(EPERM)),
    allow,
  ].flat();
}

function ownOnly({ argument: index, only, unlessNull, errno }: OwnProcessCall): Program {
  return [
    only ? [...load(argument(only.argument)), ...ifNoneOf([only.value], refuse(errno))] : [],
    load(argument(index)),
    ifOneOf([0], allow),
    unlessNull === undefined ? [] : ifNull(unlessNull, allow),
    refuse(errno),
  ].flat();
}

function ifNull(index: number, body: Program): Program {
  return [load(upperHalf(index)), ifOneOf([0], load(argument(index)), ifOneOf([0], body))].flat();
}

/** Asks the gate about a write, unless this argument says that it is short. */
function askIfLong(bytes: number): Program {
  return [
    load(upperHalf(bytes)),
    ifAtLeast(1, ask),
    load(argument(bytes)),
    ifAtLeast(WAKE_BYTES + 1, ask),
    allow,
  ].flat();
}

/** Without calls that this processor does not have. */
function numbersByName(table: Record<string, CallNumbers>, column: 0 | 1): Record<string, number> {
  const numbers = Object.entries(table).map(([name, row]) => [name, row[column]] as const);
  return Object.fromEntries(numbers.filter(([, number]) => number >= 0));
}

function numbersOf(table: Record<string, CallNumbers>, column: 0 | 1): number[] {
  return Object.values(numbersByName(table, column));
}
