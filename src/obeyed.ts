/**
 * Names that programs of the user's machine obey without being asked: version control, editors, agents and shells run
 * or read what they find there as soon as somebody works in the folder. Code and file tools that could write them would
 * get out of the sandbox by the next `git status`. Instructions in prose (`AGENTS.md`, `CLAUDE.md`) are not among them.
 */

/**
 * All of it: beside settings and hooks, an entry of the index makes git look into a folder below, and obey the settings of
 * a repository that was planted there.
 */
const repository = [".git"];

/** In a folder without a repository, one planted here as a bare one would be obeyed by the next `git` command as well. */
const noRepository = [...repository, "HEAD"];

/** Obeyed in a folder that somebody works in. */
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
  // What sets up the environment of a shell, and package managers that run what it names.
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
  // What debuggers and interpreters read in the folder they are started in.
  ...[".gdbinit", ".lldbinit", ".pdbrc", ".Rprofile"],
];

/** Obeyed in the user's home folder: settings that name other programs, or that hold the user's keys. */
const atHome = [
  ...[".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".profile", ".inputrc"],
  ...[".zshrc", ".zshenv", ".zprofile", ".zlogin", ".zlogout", ".cshrc", ".tcshrc", ".login", ".logout", ".kshrc"],
  ...[".xprofile", ".xsession", ".xsessionrc", ".xinitrc", ".direnvrc"],
  ...[".gitconfig", ".pypirc", ".netrc", ".condarc", ".ssh", ".tmux.conf", ".screenrc", ".vim", ".emacs"],
  ...[".emacs.d", ".pythonrc", ".pythonrc.py", ".config", ".local"],
  // What interpreters and databases run when they start, and folders that shells have on their PATH.
  ...[".ipython", ".jupyter", ".irbrc", ".pryrc", ".ghci", ".psqlrc", ".sqliterc", ".julia"],
  ...[".nvm", ".pyenv", ".rbenv", ".asdf", ".deno", ".bun", ".npm-global", ".oh-my-zsh"],
];

/** Obeyed in the home folder only: in a project they are what a build keeps. */
const atHomeOnly = [".gradle", ".m2", ".sbt"];

/**
 * What is protected below a folder. `hasRepository`: its `.git` is a folder with a repository in it. Names of the second
 * kind are protected wherever they exist; only in a home folder would one that code makes be obeyed.
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

/** What may be named to lift the protection. */
export const liftablePaths: ReadonlySet<string> = new Set([...noRepository, ...everywhere, ...atHome, ...atHomeOnly]);

/** A name as file systems that know no case, or overlook some characters, compare it; and Windows with its endings. */
export function foldName(name: string): string {
  return name
    .normalize("NFKC")
    .replace(/\p{Default_Ignorable_Code_Point}/gu, "")
    .replace(/:.*$/, "")
    .replace(/[. ]+$/, "")
    .toLowerCase();
}

/** Among the user's own files more is obeyed, in folders of any depth: what runs by itself once a file is there. */
const obeyedAnywhere: RegExp[] = [
  /^(\.(git|svn|github|gitlab|circleci)|git~\d+)$/,
  /^\.(cursorrules|gitlab-ci\.yml)$/,
  /^(claude|agents|gemini)\.md$/,
  // An environment of Python: its interpreter imports what lies in it, or beside the program.
  /^\.?venv$/,
  /^(env|\.pixi|site-packages|dist-packages|pyvenv\.cfg)$/,
  /^(sitecustomize|usercustomize)(\..*)?$/,
  /\.pth$/,
  // pytest imports it in whatever folder it looks for tests, which editors do by themselves.
  /^conftest\.py$/,
  /^(node_modules|autostart|launchagents|systemd|cron\..*)$/,
];

const names: ReadonlySet<string> = new Set([...liftablePaths].map(foldName));

/** The name in a path of the user's own files that a program on this machine would act on, if one would. */
export function obeyedName(path: string): string | undefined {
  const parts = path.split(/[/\\]/).filter((name) => name !== "" && name !== ".");
  return parts.find((part) => {
    const name = foldName(part);
    return names.has(name) || obeyedAnywhere.some((pattern) => pattern.test(name));
  });
}
