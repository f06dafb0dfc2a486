/** The protocol of `/jupyter_sandbox`: replies and failures. */

/** A sandbox's raw answer to a cell; `place` is its name in the pool. */
export type SandboxAnswer = { place: string } & ({ reply: SandboxReply } | { failure: SandboxFault });

export interface SandboxReply {
  status: "success" | "error";
  /** Duration of the cell, in seconds. */
  execution_time?: number | undefined;
  error?: string | undefined;
  output: {
    stdout: string;
    stderr: string;
    /** PNG in base64. */
    images: string[];
    /** The last expression as text. */
    result?: string | undefined;
  };
}

/** Response header of a sandbox that shuts down without having run the cell: another one can run it. */
export const NOT_RUN_HEADER = "cellwright-not-run";

/** What came instead of a reply. Only a refusal, or the header above, proves that nothing ran. */
export type SandboxFault =
  | { kind: "http"; status: number; reason: string; url: string; said?: string | undefined }
  | { kind: "timeout" }
  | { kind: "disconnected" }
  | { kind: "malformed"; text: string };
