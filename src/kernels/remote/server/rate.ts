import type { JupyterMessage } from "../../protocol/message.ts";

/** What a server writes to the cell's stderr when it drops output. */
const RATE_EXCEEDED = /^IOPub (data|message) rate exceeded\.\s+The (Jupyter|notebook) server will temporarily stop/;

/** Shown instead, once per cell. */
export const OUTPUT_DROPPED =
  "\n<Output is missing here: the Jupyter server drops output above its rate limit, which its settings " +
  "`iopub_data_rate_limit` and `iopub_msg_rate_limit` raise. Write long output to a file in the workspace.>\n";

export function isRateNotice({ header, content }: JupyterMessage): boolean {
  const { name, text } = content;
  return header.msg_type === "stream" && name === "stderr" && typeof text === "string" && RATE_EXCEEDED.test(text);
}
