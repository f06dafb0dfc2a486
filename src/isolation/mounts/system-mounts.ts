import { lstatSync, readlinkSync, type Stats } from "node:fs";
import { join } from "node:path";
import { jailHostDir } from "../fork-jail.ts";
import type { Mount, Symlink } from "../jail.ts";

/** Programs and libraries of the machine. */
const systemFolders = [
  ...["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"],
  ...["/nix/store", "/gnu/store", "/run/current-system/sw"],
];

/**
 * Settings that programs need and that reveal nothing about the machine's users. None of them contains secrets: if the
 * server runs as root, code in the jail can read them with root's rights.
 */
const settings = [
  ...["alternatives", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "localtime", "timezone", "os-release"],
  ...[
    "fonts",
    "matplotlibrc",
    "mime.types",
    "magic",
    "magic.mime",
    "protocols",
    "services",
    "terminfo",
    "locale.alias",
  ],
  ...["inputrc", "debian_version", "perl", "texmf", "R", "OpenCL", "java-17-openjdk", "java-21-openjdk"],
  ...["ssl/certs", "ssl/cert.pem", "ssl/openssl.cnf", "ca-certificates", "ca-certificates.conf"],
  ...["pki/ca-trust", "pki/tls/certs", "pki/tls/cert.pem", "pki/tls/openssl.cnf"],
].map((name) => `/etc/${name}`);

/** Only with the host's network: name resolution. */
const networkSettings = ["/etc/resolv.conf", "/etc/gai.conf"];

/** Our own versions, where paths can differ from the host's: a jail has one user, unknown to the host. */
const ownSettings = ["passwd", "group", "hosts", "nsswitch.conf"];

/** The system files that every jail of a Python kernel or a shell sees, read-only. */
export function systemMounts(options: { network: boolean; hasNamespaces: boolean }): {
  readOnly: Mount[];
  symlinks: Symlink[];
} {
  const readOnly: Mount[] = ownSettings.map((name) => {
    const at = `/etc/${name}`;
    return { from: options.hasNamespaces ? join(jailHostDir, "etc", name) : at, at };
  });
  const symlinks: Symlink[] = [];
  for (const path of systemFolders) {
    const found = statsOf(path);
    if (found?.isSymbolicLink()) symlinks.push({ at: path, to: readlinkSync(path) });
    else if (found) readOnly.push({ from: path, at: path });
  }
  for (const path of [...settings, ...(options.network ? networkSettings : [])]) {
    if (statsOf(path)) readOnly.push({ from: path, at: path });
  }
  return { readOnly, symlinks };
}

function statsOf(path: string): Stats | undefined {
  try {
    return lstatSync(path, { throwIfNoEntry: false });
  } catch {
    return undefined;
  }
}
