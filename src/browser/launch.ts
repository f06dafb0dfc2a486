import { existsSync, realpathSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname } from "node:path";
import { fileURLToPath } from "node:url";
import { bubblewrapArgs } from "../jail/bubblewrap.ts";
import type { Jail } from "../jail/jail.ts";

/**
 * Walls around a browser, the strongest first. `double`: bubblewrap, and in it the browser's own sandbox, which keeps
 * pages apart from each other and from the rest of the jail. `jail`: bubblewrap alone, where it lets nobody make user
 * namespaces. `own`: the browser's sandbox alone, where there is no bubblewrap.
 */
export type Walls = "double" | "jail" | "own";

/** How a browser is started. `input` and `output` are the descriptors of its DevTools pipes, as we see them. */
export interface Launch {
  command: string;
  args: string[];
  env: Record<string, string>;
  descriptors: { input: number; output: number; count: number };
}

/** JavaScript objects of one page. What lies outside of V8's heap is what `memory.ts` looks at. */
const PAGE_HEAP_MB = 512;
/** Of the jail's /tmp and /dev/shm: the profile, and pixels on their way between processes. */
const TMP_MB = 512;
/** Where a browser has its DevTools; it knows no others. */
const pipes = { output: 3, input: 4 };
const AFTER_PIPES = 5;

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

/** `profileDir` is a folder for a browser without a jail, which has one of its own in memory. */
export function planLaunch(program: string, walls: Walls, profileDir = tmpdir()): Launch {
  if (walls === "own") {
    return {
      command: program,
      args: [`--user-data-dir=${profileDir}`, ...noNetwork, ...settings],
      // Folders of its own, so that it neither reads the user's settings nor leaves anything behind.
      env: { PATH: process.env.PATH ?? "", HOME: profileDir, TMPDIR: profileDir, LANG: "C.UTF-8" },
      descriptors: { ...pipes, count: AFTER_PIPES },
    };
  }
  const sandbox = walls === "double" ? [] : ["--no-sandbox"];
  const browser = [program, "--user-data-dir=/tmp/profile", ...sandbox, ...noNetwork, ...settings];
  const args = bubblewrapArgs(browserJail(program), browser, { infoFd: AFTER_PIPES, reaper: true });
  return {
    command: "bwrap",
    // The same jail for a program that builds walls of its own in it, which takes a user namespace.
    args: walls === "double" ? args.filter((arg) => arg !== "--disable-userns") : args,
    env: { PATH: process.env.PATH ?? "" },
    descriptors: { ...pipes, count: AFTER_PIPES + 1 },
  };
}

/** What a browser may touch: programs and libraries, fonts, and its own memory. Nothing of the user's. */
export function browserJail(program: string): Jail {
  const own = dirname(realpathSync(program));
  const system = ["/usr", "/bin", "/lib", "/lib32", "/lib64", "/etc/fonts", "/etc/ld.so.cache", "/etc/alternatives"];
  const readOnly = [...system, ...(own.startsWith("/usr/") ? [] : [own])].filter((path) => existsSync(path));
  return {
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
