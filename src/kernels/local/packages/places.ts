import { readFileSync } from "node:fs";
import { isAbsolute } from "node:path";
import { fileURLToPath } from "node:url";
import { certificateFile } from "../../../packages/certificates.ts";
import { configuredIndex, type IndexAddress, indexAddress } from "../../../packages/index-address.ts";
import { programPath } from "../../../process/programs.ts";
import { type CommandLine, runCommand } from "../environments/create/command.ts";
import { hasNoIndex, pipSettings, wordsOf } from "../environments/create/pip-settings.ts";

export interface PlacesConfig {
  /** --package-index and --package-dir. */
  packageIndex?: string | undefined;
  packageDir?: string | undefined;
  /** The server's environment variables. */
  env: NodeJS.ProcessEnv;
}

/** Where local kernels' packages come from. */
export interface PackagePlaces {
  /** The main one first. Empty if disabled or unknown. */
  indexes: IndexAddress[];
  /** uv's index strategy (UV_INDEX_STRATEGY): which index to use if several have a package. */
  strategy: string;
  /** Folders of wheels on this machine. */
  folders: string[];
  way: NetworkWay;
}

/** How to reach the network. */
export interface NetworkWay {
  /** By scheme, `http:` and `https:`. */
  proxies: Record<string, URL | undefined>;
  /** Hosts to reach without a proxy, as in NO_PROXY. */
  direct: string[];
  /** Additional trusted certificates, in PEM. */
  certificates: string[];
  /** Hosts, with or without a port, whose certificates are not verified, as in pip's `trusted-host`. */
  trustedHosts: string[];
}

const FIRST_INDEX = "first-index";
const strategies = [FIRST_INDEX, "unsafe-first-match", "unsafe-best-match"];

/** pip answers in half a second; a hanging pip must not block an installation. */
const ASK_TIMEOUT_MS = 15_000;

/** Reads options, variables and pip's settings. `defaultFrom`: commands to ask for a default index otherwise. */
export async function findPlaces(config: PlacesConfig, defaultFrom: CommandLine[]): Promise<PackagePlaces> {
  const { env, packageDir } = config;
  const settings = pipSettings(env);
  const folders = [...(packageDir ? [packageDir] : []), ...wordsOf(settings, "find-links").flatMap(folderOf)];
  const asked = env.UV_INDEX_STRATEGY ?? "";
  const strategy = strategies.includes(asked) ? asked : FIRST_INDEX;
  const way = networkWay(env, settings, wordsOf(settings, "trusted-host"));
  // An index that was named for Cellwright beats pip's settings.
  if (hasNoIndex(settings) && !config.packageIndex) return { indexes: [], strategy, folders, way };
  const own = settings["index-url"];
  const main =
    configuredIndex(config.packageIndex, env) ??
    (own ? indexAddress(own, "pip's configuration") : await usualIndex(defaultFrom, env));
  const more = config.packageIndex ? [] : wordsOf(settings, "extra-index-url");
  const extra = more.map((address) => indexAddress(address, "pip's extra-index-url"));
  return { indexes: [...(main ? [main] : []), ...extra], strategy, folders, way };
}

/** pip and uv name their default index in their help, so no address is hard-coded here. */
async function usualIndex(programs: CommandLine[], env: NodeJS.ProcessEnv): Promise<IndexAddress | undefined> {
  for (const [program, ...args] of programs) {
    // Wide enough that no address is wrapped.
    const asked = { PATH: programPath(env), HOME: env.HOME, COLUMNS: "1000", NO_COLOR: "1" };
    const { stdout } = await runCommand(program, args, { env: asked, timeoutMs: ASK_TIMEOUT_MS });
    const pattern = /--(?:default-index|index-url)\b[\s\S]{0,200}?\((?:by )?default:? <?(https?:\/\/[^\s)>]+)/;
    const found = pattern.exec(stdout)?.[1];
    if (found) return indexAddress(found, "pip's default");
  }
  return undefined;
}

function networkWay(env: NodeJS.ProcessEnv, settings: Record<string, string>, trustedHosts: string[]): NetworkWay {
  const read = (...names: string[]) => names.flatMap((name) => [env[name.toLowerCase()], env[name]]).find(Boolean);
  const proxyOf = (name: string): URL | undefined => {
    const text = settings.proxy || read(name, "ALL_PROXY");
    if (!text) return undefined;
    const address = /^\w+:\/\//.test(text) ? text : `http://${text}`;
    const url = URL.canParse(address) ? new URL(address) : undefined;
    return url && ["http:", "https:"].includes(url.protocol) ? url : undefined;
  };
  const direct = (read("NO_PROXY") ?? "").split(/[\s,]+/).filter(Boolean);
  const file = settings.cert || certificateFile(env);
  return {
    proxies: { "http:": proxyOf("HTTP_PROXY"), "https:": proxyOf("HTTPS_PROXY") },
    direct,
    certificates: [...systemBundles, ...(file ? [file] : [])].flatMap(certificatesIn),
    trustedHosts,
  };
}

/** A company's certificate is often installed in the system and nowhere else. */
const systemBundles = ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];

function certificatesIn(file: string): string[] {
  try {
    return readFileSync(file, "utf8").match(/-----BEGIN CERTIFICATE-----[\s\S]+?-----END CERTIFICATE-----/g) ?? [];
  } catch {
    return [];
  }
}

/** Only local folders; pages of links elsewhere are not supported. */
function folderOf(place: string): string[] {
  if (place.startsWith("file://")) return [fileURLToPath(place)];
  return isAbsolute(place) ? [place] : [];
}
