// Runs the Dockerfile without a Docker engine: each stage is a minimal Debian with this Node instead of the image that
// FROM names, each RUN a command in it, under Docker's default restrictions. Then the container's command is started,
// its health check run, and a client requests a picture.
import { spawnSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { copyClientSettings, createRoot, enter } from "./machine.mjs";
import { requestPicture } from "./picture.mjs";

/** The unprivileged user of Node's images. */
const NODE_USER = "node";

export async function tryImage({ repository }) {
  const context = extractContext(repository);
  const stages = [];
  try {
    for (const [instruction, rest] of instructionsOf(join(context, "Dockerfile")))
      await carryOut(instruction, rest, { context, stages });
    await tryContainer(stages.at(-1));
  } finally {
    for (const { remove } of stages) remove();
    rmSync(context, { recursive: true, force: true });
  }
}

/** What `docker build` sends: the files of HEAD without those of .dockerignore. */
function extractContext(repository) {
  const context = mkdtempSync(join(tmpdir(), "cellwright-context-"));
  const archive = spawnSync("git", ["-C", repository, "archive", "HEAD"], { maxBuffer: 1 << 30 });
  const unpacked = spawnSync("tar", ["-x", "-C", context], { input: archive.stdout });
  if (archive.status !== 0 || unpacked.status !== 0) throw new Error("cannot extract the files of HEAD");
  for (const name of linesOf(join(context, ".dockerignore")))
    rmSync(join(context, name), { recursive: true, force: true });
  return context;
}

function instructionsOf(dockerfile) {
  const lines = linesOf(dockerfile).filter((line) => !line.startsWith("#"));
  const joined = lines.join("\n").replaceAll(/\\\n/g, " ");
  return joined.split("\n").map((line) => /^(\w+)\s+(.*)$/.exec(line)?.slice(1) ?? [line, ""]);
}

function linesOf(file) {
  const lines = readFileSync(file, "utf8").split("\n");
  return lines.map((line) => line.trim()).filter((line) => line !== "");
}

/** Like Docker, an unknown instruction is an error. */
async function carryOut(instruction, rest, { context, stages }) {
  const stage = stages.at(-1);
  switch (instruction) {
    case "FROM": {
      const name = / AS (\S+)$/i.exec(rest)?.[1];
      const files = createRoot({ packages: [], user: NODE_USER, home: "/root" });
      stages.push({ name, ...files, folder: "/", user: "root", env: {} });
      return;
    }
    case "WORKDIR":
      mkdirSync(join(stage.root, rest), { recursive: true });
      stage.folder = rest;
      return;
    case "COPY":
      return copy(rest.split(/\s+/), { context, stages });
    case "RUN":
      // Again: a package that an earlier step installed may have replaced the certificates.
      copyClientSettings(stage.root, "/root");
      console.log(`fresh: ${stage.user}@${stage.name ?? "image"}$ ${rest}`);
      if ((await runIn(stage, rest)) !== 0) throw new Error(`the Dockerfile's \`RUN ${rest}\` failed`);
      return;
    case "USER":
      stage.user = rest;
      return;
    case "ENV":
      for (const pair of rest.split(/\s+/)) Object.assign(stage.env, Object.fromEntries([pair.split("=")]));
      return;
    case "HEALTHCHECK":
    case "ENTRYPOINT":
    case "CMD":
      stage[instruction] = JSON.parse(rest.slice(rest.indexOf("[")));
      return;
    case "VOLUME":
    case "EXPOSE":
      return;
    default:
      throw new Error(`\`${instruction}\` in the Dockerfile is not known to scripts/fresh/image.mjs`);
  }
}

function copy(words, { context, stages }) {
  const from = /^--from=(.*)$/.exec(words[0])?.[1];
  const paths = from ? words.slice(1) : words;
  const source = from ? stages.find(({ name }) => name === from).root : context;
  const { root, folder } = stages.at(-1);
  const target = paths.at(-1);
  for (const path of paths.slice(0, -1)) {
    const isFolder = statSync(join(source, path)).isDirectory();
    const name = target.endsWith("/") && !isFolder ? join(target, path.split("/").at(-1)) : target;
    cpSync(join(source, path), join(root, folder, name), { recursive: true, verbatimSymlinks: true });
  }
}

async function tryContainer(stage) {
  const port = await freePort();
  const token = randomBytes(32).toString("hex");
  const env = { CELLWRIGHT_PORT: String(port), CELLWRIGHT_AUTH_TOKEN: token };
  const container = new AbortController();
  const exited = runIn(stage, quoted([...stage.ENTRYPOINT, ...stage.CMD]), { env, signal: container.signal });
  try {
    await isHealthy(stage, { env, exited });
    const address = `http://127.0.0.1:${port}/mcp`;
    const { width, height, sessions } = await requestPicture(address, { authorization: `Bearer ${token}` });
    console.log(`fresh: the container gave a client a PNG of ${width} × ${height} pixels.\n${sessions}`);
    if (!sessions.includes(stage.env.CELLWRIGHT_ENV)) throw new Error("the session does not use the image's Python");
    const doctor = `${quoted(stage.ENTRYPOINT)} doctor | grep 'Sandbox.*Landlock'`;
    if ((await runIn(stage, doctor, { env })) !== 0) throw new Error("the container's tier is not Landlock");
  } finally {
    container.abort();
    await exited;
  }
}

/** Repeated as Docker does; a container that has exited will not become healthy. */
async function isHealthy(stage, { env, exited }) {
  let end;
  exited.then((status) => {
    end = status;
  });
  while ((await runIn(stage, quoted(stage.HEALTHCHECK), { env })) !== 0)
    if (end !== undefined) throw new Error(`the container ended with ${end} before it was healthy`);
}

function runIn(stage, command, { env, signal } = {}) {
  const { root, user, folder } = stage;
  const home = user === "root" ? "/root" : `/home/${user}`;
  return enter({ root, user, folder, command, container: true, env: { HOME: home, ...stage.env, ...env }, signal });
}

function quoted(words) {
  return words.map((word) => `'${word.replaceAll("'", `'\\''`)}'`).join(" ");
}

function freePort() {
  return new Promise((resolve) => {
    const server = createServer().listen(0, "127.0.0.1", () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });
}
