import type { InstalledPackage, InstallOptions } from "../kernel.ts";
import { linkInto, type Packages, requirementsOf } from "./packages/packages.ts";

export interface KernelPackagesParts {
  packages: Packages;
  /** The folder that this kernel was given at its start; it can read what we put there. */
  siteDir: string;
  /** What it had from its start. */
  installed?: InstalledPackage[] | undefined;
  /** Whether a cell gets what it imports without asking. */
  automatic: boolean;
  /** Asks Python; fails while it runs a cell. */
  ask: (question: KernelQuestion) => Promise<unknown>;
}

export type KernelQuestion = { missing: string } | { refresh: true };

/** The packages of one running kernel, and how it gets more. */
export class KernelPackages {
  readonly #parts: KernelPackagesParts;
  #installed: InstalledPackage[];
  readonly #declared = new Set<string>();
  /** Python has not noticed the newest ones yet. */
  #stale = false;

  constructor(parts: KernelPackagesParts) {
    this.#parts = parts;
    this.#installed = parts.installed ?? [];
  }

  /** For a cell that is about to run: what its script block names, and what it imports and lacks. */
  async prepare(code: string, options: InstallOptions): Promise<void> {
    if (this.#stale) await this.#refresh();
    const declared = (requirementsOf(code) ?? []).filter((requirement) => !this.#declared.has(requirement));
    const missing = (await this.#missing(code)).filter((name) => !declared.includes(name));
    if (declared.length + missing.length === 0) return;
    await this.install([...declared, ...missing], options);
    for (const requirement of declared) this.#declared.add(requirement);
  }

  async install(requirements: string[], { signal, progress }: InstallOptions): Promise<InstalledPackage[]> {
    progress?.(`installing ${requirements.join(", ")}`);
    const image = await this.#parts.packages.image(requirements, { signal, progress, keep: this.#installed });
    signal.throwIfAborted();
    await linkInto(image, this.#parts.siteDir);
    const versions = new Map([...this.#installed, ...image.packages].map(({ name, version }) => [name, version]));
    this.#installed = [...versions].map(([name, version]) => ({ name, version }));
    this.#stale = true;
    // A running cell is no obstacle: it is told when the next one begins.
    await this.#refresh().catch(() => {});
    return image.packages.map(({ name, version }) => ({ name, version }));
  }

  async #refresh(): Promise<void> {
    await this.#parts.ask({ refresh: true });
    this.#stale = false;
  }

  /** Names of packages. A cell without an import costs no question. */
  async #missing(code: string): Promise<string[]> {
    if (!this.#parts.automatic || !/\bimport\b/.test(code)) return [];
    const modules = await this.#parts.ask({ missing: code });
    if (!Array.isArray(modules)) return [];
    const names = modules.map((module) => this.#parts.packages.distributionFor(String(module)));
    return [...new Set(names.filter((name) => name !== undefined))];
  }
}
