/**
 * File names that programs on the user's machine obey automatically: version control, editors, agents and shells
 * execute or read them as soon as the user works in the folder. Code and file tools that could write them would escape
 * the sandbox with the next `git status`. Instructions in prose (`AGENTS.md`, `CLAUDE.md`) are not among them.
 */

/**
 * The whole folder: besides settings and hooks, an index entry makes git enter a subfolder, and obey the settings of a
 * repository planted there.
 */
const repository = [".git"];

/** In a folder without a repository, git would also obey a bare repository planted there. */
const noRepository = [...repository, "HEAD"];

/** Obeyed in any folder that the user works in. */
const everywhere = [
  // Version control and what it runs.
  ...[".gitmodules", ".hg", ".jj", ".husky", ".pre-commit-config.yaml", "lefthook.yml", ".lefthook.yml"],
  // Editors and agents: tasks, hooks, servers to start.
  ...[".vscode", ".idea", ".zed", ".devcontainer", ".devcontainer.json", ".mcp.json", ".claude", ".cursor", ".codex"],
  ...[
    ".gemini",
    ".windsurf",
    ".continue",
    ".roo",
    ".kiro",
    ".amazonq",
    ".opencode",
    "opencode.json",
    ".aider.conf.yml",
  ],
  // Shell environments, and package managers that execute what these name.
  ...[
    ".envrc",
    ".npmrc",
    ".yarnrc",
    ".yarnrc.yml",
    ".pnpmfile.cjs",
    ".cargo",
    ".vimrc",
    ".exrc",
    ".nvim.lua",
    ".nvimrc",
  ],
  // Read by debuggers and interpreters from the folder that they are started in.
  ...[".gdbinit", ".lldbinit", ".pdbrc", ".Rprofile"],
];

/** Obeyed in the home folder: settings that name other programs, or contain keys. */
const atHome = [
  ...[".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".profile", ".inputrc"],
  ...[".zshrc", ".zshenv", ".zprofile", ".zlogin", ".zlogout", ".cshrc", ".tcshrc", ".login", ".logout", ".kshrc"],
  ...[".xprofile", ".xsession", ".xsessionrc", ".xinitrc", ".direnvrc"],
  ...[".gitconfig", ".pypirc", ".netrc", ".condarc", ".ssh", ".tmux.conf", ".screenrc", ".vim", ".emacs"],
  ...[".emacs.d", ".pythonrc", ".pythonrc.py", ".config", ".local"],
  // Startup files of interpreters and databases, and folders on the PATH of shells.
  ...[".ipython", ".jupyter", ".irbrc", ".pryrc", ".ghci", ".psqlrc", ".sqliterc", ".julia"],
  ...[".nvm", ".pyenv", ".rbenv", ".asdf", ".deno", ".bun", ".npm-global", ".oh-my-zsh"],
];

/** Obeyed in the home folder only: in a project they are build caches. */
const atHomeOnly = [".gradle", ".m2", ".sbt"];

/**
 * The protected paths below a folder. `hasRepository`: its `.git` is a folder with a repository. The `atHomeOnly` names
 * are protected wherever they exist; a new one would be obeyed only in a home folder.
 */
export function obeyedPaths(folder: { hasRepository: boolean; isHome: boolean; has(name: string): boolean }): string[] {
  const { hasRepository, isHome, has } = folder;
  return [
    ...(hasRepository ? repository : noRepository),
    ...everywhere,
    ...atHome.filter((name) => isHome || has(name)),
    ...(isHome ? atHomeOnly : []),
  ];
}

/** Names that can be given to --allow-write to lift the protection. */
export const liftablePaths: ReadonlySet<string> = new Set([...noRepository, ...everywhere, ...atHome, ...atHomeOnly]);

/**
 * Normalizes a name as file systems compare it: without case and ignorable characters; for Windows, without streams and
 * trailing dots.
 */
export function foldName(name: string): string {
  return name
    .normalize("NFKC")
    .replace(/\p{Default_Ignorable_Code_Point}/gu, "")
    .replace(/:.*$/, "")
    .replace(/[. ]+$/, "")
    .toLowerCase();
}

/** Also obeyed among the user's own files, in folders of any depth: files that are executed once they exist. */
const obeyedAnywhere: RegExp[] = [
  /^(\.(git|svn|github|gitlab|circleci)|git~\d+)$/,
  /^\.(cursorrules|gitlab-ci\.yml)$/,
  /^(claude|agents|gemini)\.md$/,
  // Python environments: the interpreter imports files in them, or beside the script.
  /^\.?venv$/,
  /^(env|\.pixi|site-packages|dist-packages|pyvenv\.cfg)$/,
  /^(sitecustomize|usercustomize)(\..*)?$/,
  /\.pth$/,
  // pytest imports it in any folder where it collects tests, which editors do automatically.
  /^conftest\.py$/,
  /^(node_modules|autostart|launchagents|systemd|cron\..*)$/,
];

const names: ReadonlySet<string> = new Set([...liftablePaths].map(foldName));

/** The name in this path, if any, that a program on this machine would act on. */
export function obeyedName(path: string): string | undefined {
  const parts = path.split(/[/\\]/).filter((name) => name !== "" && name !== ".");
  return parts.find((part) => {
    const name = foldName(part);
    return names.has(name) || obeyedAnywhere.some((pattern) => pattern.test(name));
  });
}
