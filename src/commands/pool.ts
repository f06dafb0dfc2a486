import { mkdir, symlink } from "node:fs/promises";
import { join, resolve } from "node:path";
import { createLog } from "../log.ts";
import { keptToken, POOL_DATA_DIR } from "../options/data-folders.ts";
import { OptionError, type OptionName, type Options, optionTable } from "../options/options.ts";
import { shutDown, shutdownSignal } from "./shutdown.ts";
import { Supervised } from "./supervised.ts";

const DEFAULT_PORTS = "18901-18904";
/** More than any machine can run. */
const MAX_BACKENDS = 64;

/** Shared by all sandboxes of a pool: append-only, and slow to build. */
const SHARED_FOLDERS = ["cache", "envs"];

/** Runs a `serve` per port, each with its own data folder, and restarts those that exit, until a signal. */
export async function pool(options: Options, { ports, args }: { ports?: string; args: string[] }): Promise<number> {
  if (options.kernel === "pool") {
    throw new OptionError(
      "--kernel pool is for the balancer in front of a pool. Leave it out, or choose another kernel.",
    );
  }
  const log = createLog(options.logLevel);
  const asked = shutdownSignal();
  // Generated once and kept in the data folder, where a balancer on this machine finds it.
  const hasToken = options.authToken.length > 0 || options.insecure;
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
    // After a signal nothing awaits `started`, and sandboxes stopped before they listen reject it.
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

/** Settings for the sandboxes in their environment, which other users of the machine cannot read. */
function environmentOf(options: Options, token: string | undefined): Record<string, string> {
  const secrets = optionTable.flatMap(({ name, env, secret }) => {
    const value = options[name as OptionName];
    return secret && value !== undefined ? [[env, String(value)]] : [];
  });
  return {
    ...Object.fromEntries(secrets),
    ...(token === undefined ? {} : { CELLWRIGHT_AUTH_TOKEN: token }),
    [POOL_DATA_DIR]: resolve(options.dataDir),
  };
}

/** The flags of this program to pass to the sandboxes, without secrets, which go into their environment. */
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
  const token = `They require a token. A Cellwright with the same --data-dir finds it. For others, set CELLWRIGHT_POOL_TOKEN to the content
of ${tokenFile}

`;
  return `${urls.length} sandboxes listen on
${urls.map((url) => `  ${url}\n`).join("")}
For an MCP client:
  cellwright --kernel pool${flags}

${tokenFile === undefined ? "" : token}Press Ctrl-C to stop.
`;
}
