import { findProgram, isProgram } from "../process/programs.ts";

/**
 * The real executables, which distributions hide behind shell scripts. The scripts read the user's settings and add
 * options and extensions.
 */
const programs: Partial<Record<NodeJS.Platform, string[]>> = {
  linux: [
    "/usr/lib/chromium/chromium",
    "/usr/lib/chromium-browser/chromium-browser",
    "/usr/lib64/chromium-browser/chromium-browser",
    "/opt/google/chrome/chrome",
  ],
  darwin: [
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
  ],
};
const commands = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome-headless-shell"];

/** The installed browser, if it is based on Chromium. Never one that code could have put there. */
export function findBrowser(path = process.env.PATH ?? ""): string | undefined {
  const own = (programs[process.platform] ?? []).find((program) => isProgram(program));
  return own ?? commands.map((command) => findProgram(command, { PATH: path })).find((found) => found !== undefined);
}
