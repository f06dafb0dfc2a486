import { hasCode } from "../../errors.ts";
import { withCompanions } from "../../packages/companions.ts";
import { requirementsOf } from "../../packages/script-block.ts";
import type { InstalledPackage, InstallOptions, Preparation, PrepareOptions } from "../kernel.ts";
import { linkInto, type Packages } from "./packages/packages.ts";

export interface KernelPackagesParts {
  packages: Packages;
  /** The kernel's own `site` folder; it can import whatever is put there. */
  siteDir: string;
  /** Packages that it was started with. */
  installed?: InstalledPackage[] | undefined;
  /** Whether packages that a cell imports are installed automatically. */
  automatic: boolean;
  /** Asks Python; undefined if it does not answer in time, as while a cell computes. */
  ask: (question: KernelQuestion) => Promise<unknown>;
}

export type KernelQuestion = { missing: string } | { refresh: true };

/** The packages of one running kernel, and how it gets more. */
export class KernelPackages {
  readonly #parts: KernelPackagesParts;
  #installed: InstalledPackage[];
  readonly #declared = new Set<string>();
  /** Python has not noticed the newest packages yet. */
  #stale = false;

  constructor(parts: KernelPackagesParts) {
    this.#parts = parts;
    this.#installed = parts.installed ?? [];
  }

  /** Before a cell runs: installs what its script block names, and what it imports and lacks. */
  async prepare(code: string, { imports = "needed", ...options }: PrepareOptions): Promise<Preparation> {
    if (this.#stale) await this.#refresh();
    const named = requirementsOf(code);
    const declared = (named ?? []).filter((requirement) => !this.#declared.has(requirement));
    if (imports === "guessed" && !named) return this.#attempt(await this.#missing(code), options);
    const imported = imports === "needed" ? await this.#missing(code) : [];
    const missing = imported.filter((name) => !declared.includes(name));
    const wanted = withCompanions([...declared, ...missing]);
    if (wanted.length > 0) await this.install(wanted, options);
    for (const requirement of declared) this.#declared.add(requirement);
    return { installed: wanted };
  }

  /** Installs as many of these as possible. */
  async #attempt(names: string[], options: InstallOptions): Promise<Preparation> {
    const wanted = withCompanions(names);
    if (wanted.length === 0) return { installed: [] };
    try {
      await this.install(wanted, { ...options, isGuess: true });
      return { installed: wanted };
    } catch (error) {
      if (!hasCode(error, "package_error")) throw error;
      const isKnown = names.some((name) => this.#parts.packages.isKnown(name));
      if (names.length < 2) return { installed: [], missed: { error, isKnown } };
      const installed: string[] = [];
      for (const name of names) installed.push(...(await this.#attempt([name], options)).installed);
      return { installed, missed: { error, isKnown } };
    }
  }

  async install(
    requirements: string[],
    { signal, progress, isGuess }: InstallOptions & { isGuess?: boolean },
  ): Promise<InstalledPackage[]> {
    progress?.(`installing ${requirements.join(", ")}`);
    const image = await this.#parts.packages.image(requirements, { signal, progress, keep: this.#installed, isGuess });
    signal.throwIfAborted();
    await linkInto(image, this.#parts.siteDir);
    const versions = new Map([...this.#installed, ...image.packages].map(({ name, version }) => [name, version]));
    this.#installed = [...versions].map(([name, version]) => ({ name, version }));
    this.#stale = true;
    // A running cell can delay this: Python handles it before the next cell.
    await this.#refresh().catch(() => {});
    return image.packages.map(({ name, version }) => ({ name, version }));
  }

  async #refresh(): Promise<void> {
    await this.#parts.ask({ refresh: true });
    this.#stale = false;
  }

  /** Missing packages by name. Python is not asked about a cell without an import. */
  async #missing(code: string): Promise<string[]> {
    if (!this.#parts.automatic || !/\bimport\b/.test(code)) return [];
    const modules = await this.#parts.ask({ missing: code });
    if (!Array.isArray(modules)) return [];
    const names = modules.map((module) => this.#parts.packages.distributionFor(String(module)));
    return [...new Set(names.filter((name) => name !== undefined))];
  }
}
