// Runs `npm start`, connects a client with the configuration that it prints, and requests a matplotlib picture.
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { requestPicture } from "./picture.mjs";

/** Enough for the setup on a slow connection: npm packages and a Python environment of 600 MB. */
const START_TIMEOUT_MS = 15 * 60_000;

// The network is shared with the host, where the default port may be in use.
const env = { ...process.env, CELLWRIGHT_PORT: "0" };
const server = spawn("npm", ["start"], { stdio: ["ignore", "pipe", "inherit"], env, detached: true });
try {
  const { url, headers } = await printedConfiguration(server);
  const { width, height, sessions } = await requestPicture(url, headers);
  console.log(`fresh: a client got a PNG of ${width} × ${height} pixels.\n${sessions}`);
  console.log(`fresh: ${tierInUse()}`);
} finally {
  // To the whole process group, like Ctrl-C.
  const exited = once(server, "exit");
  if (server.exitCode === null) {
    process.kill(-server.pid, "SIGINT");
    await exited;
  }
}

/** The tier that `cellwright doctor` reports; throws if it is not the best possible here. */
function tierInUse() {
  const { stdout } = spawnSync(process.execPath, ["dist/main.js", "doctor"], { encoding: "utf8" });
  const line = stdout.split("\n").find((each) => each.includes("Sandbox")) ?? "";
  const allowsNamespaces = spawnSync("unshare", ["--user", "true"]).status === 0;
  if (!line.includes(allowsNamespaces ? "namespaces" : "Landlock"))
    throw new Error(`not the tier to expect:\n${stdout}`);
  return line.trim();
}

function printedConfiguration(server) {
  let printed = "";
  const timer = setTimeout(() => process.kill(-server.pid, "SIGKILL"), START_TIMEOUT_MS);
  return new Promise((resolve, reject) => {
    server.once("exit", () => reject(new Error("`npm start` ended before it printed a configuration")));
    // Read until the server exits: its pipe must not fill up.
    server.stdout.setEncoding("utf8").on("data", (text) => {
      process.stdout.write(text);
      printed += text;
      const configuration = /^\{$.*?^\}$/ms.exec(printed);
      if (configuration) resolve(JSON.parse(configuration[0]).mcpServers.cellwright);
    });
  }).finally(() => clearTimeout(timer));
}
