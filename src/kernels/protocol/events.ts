import type { ExecutionEvent } from "../../execution.ts";
import { checkedEvent, isRecord } from "../checked-event.ts";
import type { JupyterMessage } from "./message.ts";

/** The validated event of an iopub message. Undefined if it has none. */
export function eventOf({ header, content }: JupyterMessage): ExecutionEvent | undefined {
  switch (header.msg_type) {
    case "stream":
      return checkedEvent({ ...content, type: "stream" });
    case "display_data":
      return checkedEvent({ type: "display", data: content.data, displayId: displayIdOf(content) });
    case "update_display_data":
      return checkedEvent({ type: "update", data: content.data, displayId: displayIdOf(content) });
    case "execute_result":
      return checkedEvent({ type: "result", data: content.data });
    case "clear_output":
      return checkedEvent({ type: "clear", wait: content.wait });
    case "error":
      return checkedEvent({
        type: "error",
        name: content.ename,
        message: content.evalue,
        traceback: content.traceback,
      });
    default:
      return undefined;
  }
}

/** IPython's pager output, as of `name?` and `%magic`, which comes with the reply. */
export function pageEvents(reply: Record<string, unknown>): ExecutionEvent[] {
  const { payload } = reply;
  if (!Array.isArray(payload)) return [];
  return payload.flatMap((item: unknown) => {
    const isPage = isRecord(item) && item.source === "page";
    return (isPage && checkedEvent({ type: "display", data: item.data })) || [];
  });
}

function displayIdOf({ transient }: Record<string, unknown>): unknown {
  return isRecord(transient) ? transient.display_id : undefined;
}
