import { basename, delimiter, dirname, isAbsolute, join } from "node:path";
import { findProgram } from "../../../../process/programs.ts";
import { type Candidate, interpreterIn, isExecutable, isInterpreterName } from "./candidate.ts";
import { foldersIn, homeOf, smallText } from "./folders.ts";

/** Jupyter's Python kernels, in Jupyter's lookup order: the first with a name wins. */
export function kernelspecs(env: NodeJS.ProcessEnv): Candidate[] {
  const folders = dataFolders(env).flatMap((folder) => foldersIn(join(folder, "kernels")));
  return folders.map((folder) => read(folder, env)).filter((candidate) => candidate !== undefined);
}

function dataFolders(env: NodeJS.ProcessEnv): string[] {
  const home = homeOf(env);
  const own = {
    win32: join(env.APPDATA ?? join(home, "AppData/Roaming"), "jupyter"),
    darwin: join(home, "Library/Jupyter"),
  };
  const usual =
    own[process.platform as keyof typeof own] ?? join(env.XDG_DATA_HOME || join(home, ".local/share"), "jupyter");
  const shared =
    process.platform === "win32"
      ? [join(env.PROGRAMDATA ?? "C:/ProgramData", "jupyter")]
      : ["/usr/local/share/jupyter", "/usr/share/jupyter"];
  return [...(env.JUPYTER_PATH?.split(delimiter) ?? []), env.JUPYTER_DATA_DIR || usual, ...shared].filter(Boolean);
}

/** Undefined if it is not an ipykernel. */
function read(folder: string, env: NodeJS.ProcessEnv): Candidate | undefined {
  let argv: string[];
  try {
    argv = (JSON.parse(smallText(join(folder, "kernel.json"))) as { argv: unknown[] }).argv.map(String);
  } catch {
    return undefined;
  }
  if (!argv.some((word) => /^ipykernel(_launcher)?$/.test(word))) return undefined;
  const [command = ""] = argv;
  const spec = { name: basename(folder).toLowerCase(), kind: "kernelspec" as const, path: folder };
  if (!isInterpreterName(basename(command))) {
    const obstacle = `Its kernelspec starts with \`${command}\`, which is not a Python interpreter.`;
    return { ...spec, obstacle };
  }
  const python = isAbsolute(command) ? command : (besideSpec(folder) ?? findProgram(command, env));
  if (python && isExecutable(python)) return { ...spec, python };
  return { ...spec, obstacle: `Its kernelspec names \`${command}\`, which does not exist.` };
}

/** A relative `python` is that of the prefix with the kernelspec: PREFIX/share/jupyter/kernels/X. */
function besideSpec(folder: string): string | undefined {
  return interpreterIn(dirname(dirname(dirname(dirname(folder)))));
}
