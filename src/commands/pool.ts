import { mkdir, symlink } from "node:fs/promises";
import { join, resolve } from "node:path";
import { keptToken, POOL_DATA_DIR } from "../data-folders.ts";
import { createLog } from "../log.ts";
import { OptionError, type Options, optionTable } from "../options.ts";
import { shutDown, shutdownSignal } from "./shutdown.ts";
import { Supervised } from "./supervised.ts";

const DEFAULT_PORTS = "18901-18904";
/** More than any machine has room for. */
const MAX_BACKENDS = 64;

/** What all backends of a pool may share: it is only added to, and takes long to make. */
const SHARED_FOLDERS = ["cache", "envs"];

/** Runs a `serve` of its own on each port, with a folder of its own, and starts again what ends, until a signal. */
export async function pool(options: Options, { ports, args }: { ports?: string; args: string[] }): Promise<number> {
  if (options.kernel === "pool") {
    throw new OptionError("--kernel pool is for what stands in front of a pool; leave it out, or name another one.");
  }
  const log = createLog(options.logLevel);
  const asked = shutdownSignal();
  // Made once and kept in the data folder, so that a Cellwright in front of the pool finds it there.
  const hasToken = options.authToken.length > 0 || options.authTokenFile !== undefined || options.insecure;
  const token = hasToken ? undefined : await keptToken(options.dataDir, "pool-token");
  const env = environmentOf(options, token);
  const backends = await Promise.all(
    parsePorts(ports ?? DEFAULT_PORTS).map(async (port) => {
      const dataDir = await prepareDataDir(options.dataDir, port);
      const serve = ["serve", ...flagsOf(args), "--port", String(port), "--data-dir", dataDir];
      return new Supervised({ name: String(port), args: serve, env, log });
    }),
  );
  const end = async () => {
    await Promise.all(backends.map((backend) => backend.stop()));
  };
  try {
    const started = Promise.all(backends.map((backend) => backend.start()));
    // Those that are ended before they listen are not waited for any more.
    started.catch(() => {});
    const urls = await Promise.race([started, asked.then(() => undefined)]);
    if (urls) process.stdout.write(welcome(urls, token && join(options.dataDir, "pool-token")));
  } catch (error) {
    await end();
    throw error;
  }
  log.info(`leaving: ${await asked}`);
  await shutDown(end);
  return 0;
}

/** `18901-18904`, `18901,18905`, or both. */
export function parsePorts(text: string): number[] {
  const ports = text.split(",").flatMap((part) => {
    const [, first, last = first] = /^\s*(\d{1,5})(?:\s*-\s*(\d{1,5}))?\s*$/.exec(part) ?? [];
    const [from, to] = [Number(first), Number(last)];
    if (first === undefined || from < 1 || to > 65_535 || from > to) {
      throw new OptionError(`--ports: \`${part}\` is neither a port nor a range like ${DEFAULT_PORTS}.`);
    }
    if (to - from >= MAX_BACKENDS) throw new OptionError(`--ports: at most ${MAX_BACKENDS} ports are allowed.`);
    return Array.from({ length: to - from + 1 }, (_, index) => from + index);
  });
  if (new Set(ports).size < ports.length) throw new OptionError("--ports: a port is named twice.");
  if (ports.length > MAX_BACKENDS) throw new OptionError(`--ports: at most ${MAX_BACKENDS} ports are allowed.`);
  return ports;
}

/** What the sandboxes are told by their environment, which other users of the machine cannot see. */
function environmentOf(options: Options, token: string | undefined): Record<string, string> {
  const secrets = optionTable.flatMap(({ name, env, secret }) => {
    const value = options[name];
    return secret && value !== undefined ? [[env, String(value)]] : [];
  });
  return {
    ...Object.fromEntries(secrets),
    ...(token === undefined ? {} : { CELLWRIGHT_AUTH_TOKEN: token }),
    [POOL_DATA_DIR]: resolve(options.dataDir),
  };
}

/** The flags given to this program, for those it starts; without secrets, which their environment has. */
function flagsOf(args: string[]): string[] {
  const secret = optionTable.filter((row) => row.secret).map((row) => row.flag);
  const left = ["--ports", ...secret];
  const flags = args.toSpliced(args.indexOf("pool"), 1);
  for (let at = flags.findIndex(isLeft); at >= 0; at = flags.findIndex(isLeft)) {
    flags.splice(at, flags[at]?.includes("=") ? 1 : 2);
  }
  return flags;

  function isLeft(arg: string): boolean {
    return left.includes(arg.split("=", 1)[0] ?? "");
  }
}

async function prepareDataDir(dataDir: string, port: number): Promise<string> {
  const own = resolve(dataDir, "pool", String(port));
  await mkdir(own, { recursive: true, mode: 0o700 });
  for (const name of SHARED_FOLDERS) {
    const shared = resolve(dataDir, name);
    await mkdir(shared, { recursive: true, mode: 0o700 });
    await symlink(shared, join(own, name), "junction").catch((error: NodeJS.ErrnoException) => {
      if (error.code !== "EEXIST") throw error;
    });
  }
  return own;
}

function welcome(urls: string[], tokenFile: string | undefined): string {
  const flags = urls.map((url) => ` --pool-url ${url}`).join("");
  const token = `They want a token. A Cellwright with the same --data-dir finds it; others are given it as
CELLWRIGHT_POOL_TOKEN. It is in ${tokenFile}

`;
  return `${urls.length} sandboxes listen on
${urls.map((url) => `  ${url}\n`).join("")}
For an MCP client:
  cellwright --kernel pool${flags}

${tokenFile === undefined ? "" : token}Press Ctrl-C to stop.
`;
}
