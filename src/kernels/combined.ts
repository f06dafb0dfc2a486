import { CellwrightError } from "../errors.ts";
import type { Environment, KernelInfo, KernelProvider, KernelSpec } from "./kernel.ts";

export interface CombinedParts {
  name: string;
  /** Python on this machine, if allowed. */
  local?: KernelProvider | undefined;
  bash?: KernelProvider | undefined;
  wasm?: KernelProvider | undefined;
  /** Where Python runs by default. */
  preferred: "local" | "wasm";
  /** Why that is the default, as a sentence. */
  why?: string | undefined;
  /** Disposes of what the providers share, after them. */
  dispose(): Promise<void>;
}

/** Several providers as one, selected by language and environment. */
export function combineProviders(parts: CombinedParts): KernelProvider {
  const { local, bash, wasm, preferred } = parts;
  const pythons = preferred === "local" ? [local, wasm] : [wasm, local];
  const all = [...pythons, bash].filter((provider) => provider !== undefined);

  const choose = ({ language, env }: KernelSpec): KernelProvider => {
    if (language === "bash") return bash ?? refuse("bash is not available here: WASM kernels have no shell.");
    if (env === "wasm") return wasm ?? refuse("This server runs local kernels only; `wasm` is not available.");
    if (env !== undefined) return local ?? refuse(`There is no environment \`${env}\` here, only \`wasm\`.`);
    return pythons[0] ?? pythons[1] ?? refuse("Python is not available here.");
  };

  return {
    name: parts.name,

    async list(signal) {
      const lists = await Promise.all(all.map((provider) => provider.list(signal).catch((): KernelInfo[] => [])));
      const [first, ...others] = lists.flat();
      if (!first) return [];
      return [{ ...first, notes: [...(parts.why ? [parts.why] : []), ...(first.notes ?? [])] }, ...others];
    },

    start(spec, options) {
      // `wasm` is a Python environment and does not apply to bash.
      const env = spec.language === "bash" && spec.env === "wasm" ? undefined : spec.env;
      return choose(spec).start({ ...spec, env }, options);
    },

    warm(slot) {
      choose({ language: "python" }).warm?.(slot);
    },

    async adopt(language, options) {
      return language === "python" ? local?.adopt?.(language, options) : undefined;
    },

    async environments(signal) {
      const lists = await Promise.all(all.map((provider) => provider.environments?.(signal) ?? []));
      return lists.flat().map((environment): Environment => {
        const isWasm = environment.kind === "wasm";
        return {
          ...environment,
          isDefault: isWasm ? preferred === "wasm" : preferred === "local" && environment.isDefault,
        };
      });
    },

    async environment(env, options) {
      const provider = choose({ language: "python", ...(env === undefined ? {} : { env }) });
      if (provider.environment) return provider.environment(env, options);
      return { kind: "wasm", path: "", python: "" };
    },

    async sameEnvironment(one, other) {
      try {
        const [here, there] = [one, other].map((env) => choose({ language: "python", ...(env ? { env } : {}) }));
        return here === there && ((await here?.sameEnvironment?.(one, other)) ?? here === wasm);
      } catch {
        return false;
      }
    },

    async dispose() {
      await Promise.all(all.map((provider) => provider.dispose()));
      await parts.dispose();
    },
  };
}

function refuse(message: string): never {
  throw new CellwrightError("kernel_not_found", message);
}
