import { expect, test } from "vitest";
import { AdoptedChannel } from "../../../src/kernels/local/adopted-channel.ts";
import type { JupyterChannel, Listener } from "../../../src/kernels/protocol/channel.ts";
import { createMessage, type JupyterMessage } from "../../../src/kernels/protocol/message.ts";
import type { NewestCell } from "../../../src/kernels/protocol/newest-cell.ts";

const SESSION = "client";
const CELL = "cell";

const stream = (text: string) =>
  createMessage("iopub", "stream", { name: "stdout", text }, { session: SESSION, parent: { msg_id: CELL } });
const idle = () =>
  createMessage("iopub", "status", { execution_state: "idle" }, { session: SESSION, parent: { msg_id: CELL } });
const idOf = ({ header }: JupyterMessage) => header.msg_id;

/** A scripted kernel with a cell whose journal has these messages. */
function start(journal: JupyterMessage[]) {
  let hear: Listener = () => {};
  const inner: JupyterChannel = {
    send: async () => {},
    listen: (listener) => {
      hear = listener;
    },
    closed: new Promise(() => {}),
    close: async () => {},
  };
  const seen = new Set(journal.map(idOf));
  const cell: NewestCell = { id: CELL, code: "", executionCount: 1, events: [], failed: false, over: false, seen };
  const passed: string[] = [];
  const note: Listener = ({ header, content }) => passed.push(String(content.text ?? header.msg_type));
  return {
    channel: new AdoptedChannel(inner, SESSION),
    cell,
    come: (message: JupyterMessage) => hear(message),
    passed,
    note,
  };
}

test("messages that the journal had are not passed on again; the end comes with a reply", async () => {
  const first = stream("first");
  const { channel, cell, come, passed, note } = start([first]);
  void channel.attach();
  come(first);
  await channel.continue(cell);
  channel.listen(note);
  come(stream("second"));
  expect(passed).toEqual([]);
  channel.release();
  come(idle());
  expect(passed).toEqual(["second", "execute_reply", "status"]);
});

test("output between a first look at the journal and the subscription comes from a second look, in order and once", async () => {
  const [first, between, both] = [stream("first"), stream("between"), stream("both")];
  const { channel, cell, come, passed, note } = start([first]);
  void channel.attach();
  let read = (_: JupyterMessage[]) => {};
  const later = new Promise<JupyterMessage[]>((resolve) => {
    read = resolve;
  });
  await channel.continue(cell, later);
  channel.listen(note);
  channel.release();
  come(both);
  come(idle());
  expect(passed).toEqual([]);
  read([first, between, both]);
  await later;
  expect(passed).toEqual(["between", "both", "execute_reply", "status"]);
});
