import type { Answer } from "./interpreter.ts";

/** What has been learnt and what is going on, so that nothing is asked or installed twice. As long as a provider. */
export class Remembered {
  /** What interpreters said, by question, with the state of the disk that it holds for. */
  readonly answers = new Map<string, { stamp: string; answer: Answer } | Promise<Answer>>();
  /** The interpreters behind shims. */
  readonly shims = new Map<string, Promise<string>>();
  /** Installations that are going on, by their command. */
  readonly installations = new Map<string, Promise<void>>();
}
