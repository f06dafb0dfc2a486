// Connects a client to a server and requests a matplotlib picture.

const code = `import matplotlib.pyplot as plt
plt.plot([1, 4, 9, 16])
plt.show()`;

/** Resolves with the picture's size and the server's list of sessions; throws if there is no picture, or an empty one. */
export async function requestPicture(url, headers) {
  // Imported only now: `npm start` installs it.
  const { Client, StreamableHTTPClientTransport } = await import("@modelcontextprotocol/client");
  const client = new Client({ name: "fresh", version: "1.0.0" });
  await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } }));
  const call = (name, args) => client.callTool({ name, arguments: args }, { timeout: 180_000 });
  let reply = await call("execute_code", { code });
  const execution = () => reply._meta["cellwright/execution"];
  while (!reply.isError && execution().status === "running")
    reply = await call("wait", { session_id: execution().session_id });
  const sessions = text(await call("list_sessions", {}));
  await client.close();
  return { ...(await readPicture(reply)), sessions };
}

async function readPicture(reply) {
  const picture = reply.content.find(({ type }) => type === "image");
  if (!picture) throw new Error(`no picture in the reply:\n${text(reply)}`);
  const { decode } = await import("fast-png");
  const { width, height, data } = decode(Buffer.from(picture.data, "base64"));
  if (new Set(data).size < 2) throw new Error(`the picture of ${width} × ${height} pixels is of one colour`);
  return { width, height };
}

function text({ content }) {
  return content.flatMap((block) => (block.type === "text" ? [block.text] : [])).join("\n");
}
