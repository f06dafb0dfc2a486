import { existsSync } from "node:fs";
import { delimiter, join } from "node:path";
import { helperEnv } from "../../../../process/programs.ts";
import { homeOf, textOf } from "../discover/folders.ts";

type Settings = Record<string, string>;

/**
 * The environment of an installer, which uses the same indexes as the user's pip or uv. uv does not read pip's
 * settings: they are translated for it, unless uv has its own. No address is hard-coded here.
 */
export function installerEnv(env: NodeJS.ProcessEnv, packageIndex?: string): NodeJS.ProcessEnv {
  const uvEnv = hasUvSettings(env) ? {} : forUv(pipSettings(env));
  const index = packageIndex ? { UV_DEFAULT_INDEX: packageIndex, PIP_INDEX_URL: packageIndex } : {};
  const own = Object.fromEntries(Object.entries(helperEnv(env)).filter(([name]) => !misleading.test(name)));
  return { ...uvEnv, ...own, ...index, PIP_DISABLE_PIP_VERSION_CHECK: "1", PIP_NO_INPUT: "1", NO_COLOR: "1" };
}

/** Variables that would install packages elsewhere, or prevent byte code. */
const misleading =
  /^(PYTHON[A-Z]+|VIRTUAL_ENV|UV_(SYSTEM_PYTHON|PYTHON|TARGET|PREFIX)|PIP_(TARGET|PREFIX|ROOT|USER|PYTHON|REQUIRE_VIRTUALENV|QUIET))$/;

function hasUvSettings(env: NodeJS.ProcessEnv): boolean {
  if (["UV_DEFAULT_INDEX", "UV_INDEX_URL", "UV_INDEX", "UV_CONFIG_FILE"].some((name) => env[name])) return true;
  const folders = [env.XDG_CONFIG_HOME || join(homeOf(env), ".config"), env.APPDATA, "/etc"];
  return folders.some((folder) => folder && existsSync(join(folder, "uv/uv.toml")));
}

function forUv(settings: Settings): NodeJS.ProcessEnv {
  const translated: Record<string, string | undefined> = {
    UV_DEFAULT_INDEX: settings["index-url"],
    UV_INDEX: wordsOf(settings, "extra-index-url").join(" "),
    UV_NO_INDEX: hasNoIndex(settings) ? "1" : undefined,
    UV_FIND_LINKS: wordsOf(settings, "find-links").join(","),
    UV_INSECURE_HOST: wordsOf(settings, "trusted-host").join(" "),
    UV_HTTP_TIMEOUT: settings.timeout ?? settings["default-timeout"],
    SSL_CERT_FILE: settings.cert,
    SSL_CLIENT_CERT: settings["client-cert"],
    ALL_PROXY: settings.proxy,
    // Like current pip, trust the system's certificates, which include a company's own.
    UV_SYSTEM_CERTS: "1",
    UV_NATIVE_TLS: "1",
  };
  return Object.fromEntries(Object.entries(translated).filter(([, value]) => value));
}

/** A setting that lists several values. */
export function wordsOf(settings: Settings, key: string): string[] {
  return settings[key]?.split(/\s+/).filter(Boolean) ?? [];
}

export function hasNoIndex(settings: Settings): boolean {
  return /^(1|true|yes|on)$/i.test(settings["no-index"] ?? "");
}

/** pip's settings, in pip's order: files of the machine and of the user, then variables. Later ones win. */
export function pipSettings(env: NodeJS.ProcessEnv): Settings {
  const settings: Settings = {};
  for (const file of pipFiles(env)) Object.assign(settings, parseIni(textOf(file)));
  for (const [name, value] of Object.entries(env)) {
    const key = /^PIP_([A-Z_]+)$/.exec(name)?.[1];
    if (key && value) settings[key.toLowerCase().replaceAll("_", "-")] = value;
  }
  return settings;
}

function pipFiles(env: NodeJS.ProcessEnv): string[] {
  const own = env.PIP_CONFIG_FILE;
  // As documented by pip, the null device means no file at all.
  if (own && ["/dev/null", "nul", "os.devnull"].includes(own.toLowerCase())) return [];
  const home = homeOf(env);
  const name = process.platform === "win32" ? "pip.ini" : "pip.conf";
  const shared =
    process.platform === "win32"
      ? [join(env.PROGRAMDATA ?? "C:/ProgramData", "pip", name)]
      : [...(env.XDG_CONFIG_DIRS || "/etc/xdg").split(delimiter).map((dir) => join(dir, "pip", name)), "/etc/pip.conf"];
  const users = [
    join(home, process.platform === "win32" ? "pip" : ".pip", name),
    join(env.XDG_CONFIG_HOME || join(home, ".config"), "pip", name),
    ...(process.platform === "darwin" ? [join(home, "Library/Application Support/pip", name)] : []),
    ...(env.APPDATA ? [join(env.APPDATA, "pip", name)] : []),
  ];
  return [...shared, ...users, ...(own ? [own] : [])];
}

/** Settings of `[install]` over those of `[global]`. Indented lines continue a value. */
function parseIni(text: string): Settings {
  const sections: Record<string, Settings> = { global: {}, install: {} };
  let section: Settings | undefined;
  let key: string | undefined;
  for (const line of text.split(/\r?\n/)) {
    if (/^\s*([#;]|$)/.test(line)) continue;
    const head = /^\[(.+)\]\s*$/.exec(line)?.[1];
    const entry = /^([\w.-]+)\s*[=:]\s*(.*)$/.exec(line);
    if (head) section = sections[head.trim()];
    else if (/^\s/.test(line) && section && key) section[key] = `${section[key]}\n${line.trim()}`;
    else if (entry?.[1]) {
      key = entry[1].toLowerCase().replaceAll("_", "-");
      if (section) section[key] = (entry[2] ?? "").trim();
    }
  }
  return { ...sections.global, ...sections.install };
}
