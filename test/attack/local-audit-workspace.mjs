// What programs outside the sandbox obey, in the user's own folder: code in local Python and bash.

import { attackByCode, gotThrough, withstood } from "./audit-workspace.mjs";
import { expect, proves, until } from "./case.mjs";
import { forBoth, inPython, LIMITS, startLocal } from "./local-stage.mjs";
import { JAILED } from "./tier.mjs";
import {
  git,
  isObeyed,
  makeProject,
  makeProjectWithSettings,
  markerIn,
  plant,
  plantNamed,
  waysDone,
} from "./workspaces.mjs";

const start = (stage, folder, more) =>
  stage.ownServer((env) => startLocal({ args: [...JAILED, ...LIMITS, "--workspace", folder, ...more], env }));

const parts = (stage, language) => ({
  serverIn: (folder, more) => start(stage, folder, more),
  run: (server, code) => server.run(inPython(language, code), { language, timeout_s: 60 }),
});

const s7 = forBoth((language) => ({
  id: "S7",
  class: "S5",
  what: "code makes `git` outside run something: config, hooks, renames, links, a planted repository",
  async probe(stage) {
    return withstood(await attackByCode(stage, parts(stage, language)));
  },
  async control(stage) {
    return gotThrough(await attackByCode(stage, { ...parts(stage, language), lift: [".git", "HEAD"] }));
  },
}));

/** Not `os.access`, which ignores Landlock. */
const OPENS = "try: print(opens('.git/config'))\nexcept OSError as error: print(error)";

/** A program outside that replaces a mount point removes the mount in every jail. */
const s7Replaced = forBoth((language) => ({
  id: "S7",
  class: "S5",
  what: "code writes `.git/config` after the user's own `git config` has replaced it",
  async probe(stage) {
    const folder = makeProject(stage);
    const server = await start(stage, folder, []);
    const session = await stage.session(server, language === "python" ? "0" : ":", { language });
    const run = (code) => session.run(inPython(language, code), { language, timeout_s: 60 });
    expect(git(folder, "config", "remote.origin.url", "elsewhere").status === 0, "the user's git failed");
    const isWritable = async () => (await run(OPENS)).text.includes("GOT-THROUGH");
    await until("the protection to be back", async () => !(await isWritable()), 30_000);
    const marker = markerIn(stage);
    const ways = waysDone(await run(plant(marker)));
    expect(ways.length === 0, `code wrote what hosts obey: ${ways.join(", ")}`);
    expect(!isObeyed(folder, marker), "git ran what code had planted");
    return "still protected";
  },
  async control(stage) {
    const folder = makeProject(stage);
    const server = await start(stage, folder, ["--allow-write", ".git"]);
    const session = await stage.session(server, language === "python" ? "0" : ":", { language });
    const marker = markerIn(stage);
    await session.run(inPython(language, plant(marker)), { language, timeout_s: 60 });
    proves(isObeyed(folder, marker), "git does not obey what was written");
    return "with --allow-write=.git the same code works";
  },
}));

const s7Named = forBoth((language) => ({
  id: "S7",
  class: "S5",
  what: "code writes what the settings of git name: a folder of hooks, an included file, a program",
  async attack(stage, lift) {
    const folder = makeProjectWithSettings(stage);
    const server = await start(stage, folder, lift);
    const session = await stage.session(server, language === "python" ? "0" : ":", { language });
    const marker = markerIn(stage);
    const code = inPython(language, plantNamed(marker));
    const ways = waysDone(await session.run(code, { language, timeout_s: 60 }));
    return { ways, ran: isObeyed(folder, marker), works: git(folder, "status").status === 0 };
  },
  async probe(stage) {
    const { ways, ran, works } = await this.attack(stage, []);
    expect(!ran, "git ran what code had planted");
    expect(ways.length === 0, `code wrote what git obeys: ${ways.join(", ")}`);
    expect(works, "the user's own git does not work any more");
    return "all ways refused";
  },
  async control(stage) {
    const { ways, ran } = await this.attack(stage, ["--allow-write", ".git"]);
    proves(ran && ways.length > 4, `git ran ${ran ? "it" : "nothing"}: ${ways.join(", ")}`);
    return `${ways.length} ways work, and git runs it`;
  },
}));

export default [...s7, ...s7Replaced, ...s7Named];
