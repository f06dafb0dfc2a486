import type { Sessions } from "../engine/sessions/sessions.ts";
import type { KernelInfo } from "../kernels/kernel.ts";
import type { Options } from "../options/options.ts";

/** A client waits for the instructions in its `initialize`; a slow provider must not delay that. */
const KERNEL_LIST_MS = 1_000;

/** What a model should know before its first call. */
export async function writeInstructions({
  sessions,
  options,
}: {
  sessions: Sessions;
  options: Options;
}): Promise<string> {
  const kernels = await listKernels(sessions, KERNEL_LIST_MS);
  const python = kernels.find(({ language }) => language === "python");
  const files = options.caps.includes("files");
  const isPool = python?.provider === "pool";
  const room = isPool ? "" : `A session may use ${options.memoryMb} MB of memory and ${options.diskMb} MB of disk. `;
  return [
    `Runs code in stateful sessions: ${python?.description ?? "Python"}${hasBash(kernels) ? ", and bash with language=bash" : ""}. Variables, imports and files stay between calls that pass the same session_id; leave it out for a new session.`,
    isPool ? IN_A_POOL : python?.provider === "local" ? describeLocal(options) : describeWasm(options),
    `${room}A cell ends after ${options.timeout / 1000} s unless timeout_s says otherwise. A call returns earlier, with status \`running\`: call wait for the rest, or interrupt.`,
    `A reply holds about ${options.maxResultChars} characters, head and tail; the rest is linked. Print what matters, not everything.`,
    isPool
      ? FILES_IN_A_POOL
      : `The working directory is the session's workspace: files written there persist${files ? ", are listed in the reply, and can be read and written with the file tools" : " and are listed in the reply"}.`,
  ].join("\n");
}

const IN_A_POOL = "Code runs in a remote sandbox, which decides what it may access and which packages it has.";
const FILES_IN_A_POOL = "Files that a cell writes stay in the session's sandbox; only cells can read them.";

function describeLocal({ allowNet, noInstall }: Options): string {
  const network = allowNet.length > 0 ? "Code may use the network" : "Code has no network";
  const more = noInstall ? "" : " Install missing packages with install_packages.";
  return `${network}, and cannot ask for input. The packages of its Python environment are available.${more}`;
}

function describeWasm({ packages, noInstall }: Options): string {
  const code = "Code has no network, cannot start processes and cannot ask for input.";
  const there =
    packages.length > 0
      ? `Python's standard library and ${packages.join(", ")} are available`
      : "Python's standard library is available";
  return noInstall
    ? `${code} ${there}; install other packages with install_packages.`
    : `${code} ${there}; packages that a cell imports are installed before it runs, if they support WebAssembly.`;
}

/** The kernels, the default one first; starts none. Empty if the provider fails or does not answer in time. */
export function listKernels(sessions: Sessions, timeoutMs: number): Promise<KernelInfo[]> {
  return sessions.provider.list(AbortSignal.timeout(timeoutMs)).catch(() => []);
}

function hasBash(kernels: KernelInfo[]): boolean {
  return kernels.some(({ language }) => language === "bash");
}
