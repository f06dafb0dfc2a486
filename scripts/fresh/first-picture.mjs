// `npm start` and the first thing that a client asks of it: connects with the configuration it prints, as somebody
// would paste it, and wants a picture by matplotlib.
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";

/** For the set-up on a slow connection: npm packages and a Python environment of 600 MB. */
const START_TIMEOUT_MS = 15 * 60_000;

const code = `import matplotlib.pyplot as plt
plt.plot([1, 4, 9, 16])
plt.show()`;

// The network is the outer machine's, where the usual port may be taken.
const env = { ...process.env, CELLWRIGHT_PORT: "0" };
const server = spawn("npm", ["start"], { stdio: ["ignore", "pipe", "inherit"], env, detached: true });
try {
  const { url, headers } = await printedConfiguration(server);
  const { reply, sessions } = await ask(url, headers);
  const { width, height } = await readPicture(reply);
  console.log(`fresh: a client got a PNG of ${width} × ${height} pixels.\n${sessions}`);
  console.log(`fresh: ${tierInUse()}`);
} finally {
  // To all of its processes, as Ctrl-C does.
  const exited = once(server, "exit");
  if (server.exitCode === null) {
    process.kill(-server.pid, "SIGINT");
    await exited;
  }
}

/** As `cellwright doctor` says it; throws when it is not the best that this machine allows. */
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
    // Read to the end of the server: its pipe must never fill up.
    server.stdout.setEncoding("utf8").on("data", (text) => {
      process.stdout.write(text);
      printed += text;
      const configuration = /^\{$.*?^\}$/ms.exec(printed);
      if (configuration) resolve(JSON.parse(configuration[0]).mcpServers.cellwright);
    });
  }).finally(() => clearTimeout(timer));
}

/** Imported only now: `npm start` installs it. */
async function ask(url, headers) {
  const { Client, StreamableHTTPClientTransport } = await import("@modelcontextprotocol/client");
  const client = new Client({ name: "fresh", version: "1.0.0" });
  await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } }));
  const call = (name, args) => client.callTool({ name, arguments: args }, { timeout: 180_000 });
  let reply = await call("execute_code", { code });
  const execution = () => reply._meta["cellwright/execution"];
  while (!reply.isError && execution().status === "running")
    reply = await call("wait", { session_id: execution().session_id });
  const sessions = text(await call("list_sessions", {}));
  await client.close();
  return { reply, sessions };
}

async function readPicture(reply) {
  const picture = reply.content.find(({ type }) => type === "image");
  if (!picture) throw new Error(`no picture in the reply:\n${text(reply)}`);
  const { decode } = await import("fast-png");
  const { width, height, data } = decode(Buffer.from(picture.data, "base64"));
  if (new Set(data).size < 2) throw new Error(`the picture of ${width} × ${height} pixels is of one colour`);
  return { width, height };
}

function text({ content }) {
  return content.flatMap((block) => (block.type === "text" ? [block.text] : [])).join("\n");
}
