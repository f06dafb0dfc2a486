import { existsSync, realpathSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname } from "node:path";
import { fileURLToPath } from "node:url";
import type { Isolation, Jail } from "../jail/jail.ts";

/**
 * Walls around a browser, the strongest first. `double`: a jail, and in it the browser's own sandbox, which keeps
 * pages apart from each other and from the rest of the jail. `jail`: the jail alone, where no user namespace can be made
 * inside. `own`: the browser's sandbox alone, where there are no namespaces for a jail.
 */
export type Walls = "double" | "jail" | "own";

/** How a browser is started. */
export interface Launch {
  command: string[];
  env: Record<string, string>;
  jail?: Jail | undefined;
}

/** JavaScript objects of one page. What lies outside of V8's heap is what `memory.ts` looks at. */
const PAGE_HEAP_MB = 512;
/** Of the jail's /tmp and /dev/shm: the profile, and pixels on their way between processes. */
const TMP_MB = 512;
/** Where a browser has its DevTools; it knows no others. `input` and `output` as we see them. */
export const pipes = { output: 3, input: 4 };

/** Outside of a jail these are the wall to the network, inside the second one. */
const noNetwork = [
  "--host-resolver-rules=MAP * ~NOTFOUND",
  // The discard port of nobody; and no exception for this machine, which is the default.
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
  // WebGL without a graphics card, for plots in three dimensions.
  "--enable-unsafe-swiftshader",
  // Several pages draw at the same time, and each has to believe that it is looked at.
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

export type BrowserWalls = { walls: "own"; profileDir?: string } | { walls: "double" | "jail"; isolation: Isolation };

/** `profileDir` is a folder for a browser without a jail, which has one of its own in memory. */
export function planLaunch(program: string, around: BrowserWalls): Launch {
  if (around.walls === "own") {
    const { profileDir = tmpdir() } = around;
    return {
      command: [program, `--user-data-dir=${profileDir}`, ...noNetwork, ...settings],
      // Folders of its own, so that it neither reads the user's settings nor leaves anything behind.
      env: { PATH: process.env.PATH ?? "", HOME: profileDir, TMPDIR: profileDir, LANG: "C.UTF-8" },
    };
  }
  const sandbox = around.walls === "double" ? [] : ["--no-sandbox"];
  const command = [program, "--user-data-dir=/tmp/profile", ...sandbox, ...noNetwork, ...settings];
  // A program that builds walls of its own in its jail needs user namespaces for it.
  const jail = { ...browserJail(program, around.isolation), nests: around.walls === "double" };
  return { command, env: {}, jail };
}

/** What a browser may touch: programs and libraries, fonts, and its own memory. Nothing of the user's. */
export function browserJail(program: string, isolation: Isolation): Jail {
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
