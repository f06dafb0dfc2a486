import type { Answer } from "./interpreter.ts";

/** A provider's cache of probes and installations, finished and running, so that none is done twice. */
export class Remembered {
  /** Answers of interpreters by question, valid while the disk's stamp is unchanged. */
  readonly answers = new Map<string, { stamp: string; answer: Answer } | Promise<Answer>>();
  /** The interpreters behind shims. */
  readonly shims = new Map<string, Promise<string>>();
  /** Running installations, by command. */
  readonly installations = new Map<string, Promise<void>>();
}
