import { existsSync, realpathSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname } from "node:path";
import { fileURLToPath } from "node:url";
import type { Isolation, Jail } from "../isolation/jail.ts";

/**
 * Sandboxes for a browser, strongest first. `double`: a jail, and in it the browser's own sandbox, which isolates pages
 * from each other and from the rest of the jail. `jail`: the jail alone, where user namespaces cannot be nested. `own`:
 * the browser's sandbox alone, where no jail can be made.
 */
export type SandboxKind = "double" | "jail" | "own";

/** How a browser is started. */
export interface Launch {
  command: string[];
  env: Record<string, string>;
  jail?: Jail | undefined;
}

/** JavaScript heap of one page. Memory outside of V8's heap is checked by `memory.ts`. */
const PAGE_HEAP_MB = 512;
/** Size of the jail's /tmp and /dev/shm: the profile, and pixels shared between processes. */
const TMP_MB = 512;
/** File descriptors of DevTools, fixed by Chromium. `input` and `output` as seen from here. */
export const pipes = { output: 3, input: 4 };

/** These block the network: the only barrier outside of a jail, the second one inside. */
const noNetwork = [
  "--host-resolver-rules=MAP * ~NOTFOUND",
  // The discard port, where nothing listens. Loopback, which is exempt by default, goes there as well.
  "--proxy-server=http://127.0.0.1:9",
  "--proxy-bypass-list=<-loopback>",
  "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-domain-reliability",
  "--disable-sync",
];

const settings = [
  "--headless=new",
  "--remote-debugging-pipe",
  "--no-first-run",
  "--no-default-browser-check",
  "--disable-extensions",
  "--disable-default-apps",
  "--disable-breakpad",
  "--disable-crash-reporter",
  "--disable-notifications",
  "--disable-features=Translate,MediaRouter,OptimizationHints,DialMediaRouteProvider",
  "--disable-gpu",
  // WebGL without a GPU, for 3D plots.
  "--enable-unsafe-swiftshader",
  // Several pages draw at the same time, and background pages must not be throttled.
  "--disable-background-timer-throttling",
  "--disable-backgrounding-occluded-windows",
  "--disable-renderer-backgrounding",
  "--hide-scrollbars",
  "--mute-audio",
  "--password-store=basic",
  "--use-mock-keychain",
  "--force-color-profile=srgb",
  `--js-flags=--max-old-space-size=${PAGE_HEAP_MB}`,
  "about:blank",
];

export type BrowserSandbox = { kind: "own"; profileDir?: string } | { kind: "double" | "jail"; isolation: Isolation };

/** `profileDir`: for a browser without a jail; in a jail the profile is in memory. */
export function planLaunch(program: string, sandbox: BrowserSandbox): Launch {
  if (sandbox.kind === "own") {
    const { profileDir = tmpdir() } = sandbox;
    return {
      command: [program, `--user-data-dir=${profileDir}`, ...noNetwork, ...settings],
      // Its own folders, so that it neither reads the user's settings nor leaves files behind.
      env: { PATH: process.env.PATH ?? "", HOME: profileDir, TMPDIR: profileDir, LANG: "C.UTF-8" },
    };
  }
  const flags = sandbox.kind === "double" ? [] : ["--no-sandbox"];
  const command = [program, "--user-data-dir=/tmp/profile", ...flags, ...noNetwork, ...settings];
  // The browser's own sandbox needs user namespaces inside the jail.
  const jail = { ...browserJail(program, sandbox.isolation), nests: sandbox.kind === "double" };
  return { command, env: {}, jail };
}

/** What a browser can access: programs and libraries, fonts, its own memory. None of the user's files. */
function browserJail(program: string, isolation: Isolation): Jail {
  const own = dirname(realpathSync(program));
  const system = ["/usr", "/bin", "/lib", "/lib32", "/lib64", "/etc/fonts", "/etc/ld.so.cache", "/etc/alternatives"];
  const readOnly = [...system, ...(own.startsWith("/usr/") ? [] : [own])].filter((path) => existsSync(path));
  return {
    isolation,
    readOnly: [
      ...readOnly.map((path) => ({ from: path, at: path })),
      { from: fontsDir(), at: "/run/fonts" },
      { from: fileURLToPath(new URL("./fonts.conf", import.meta.url)), at: "/run/fonts.conf" },
    ],
    readWrite: [],
    env: { PATH: "/usr/bin:/bin", HOME: "/tmp", LANG: "C.UTF-8", FONTCONFIG_FILE: "/run/fonts.conf" },
    workingDir: "/",
    tmpMb: TMP_MB,
  };
}

function fontsDir(): string {
  return dirname(createRequire(import.meta.url).resolve("dejavu-fonts-ttf/ttf/DejaVuSans.ttf"));
}
