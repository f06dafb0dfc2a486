import { ProtocolError, ProtocolErrorCode, type Server } from "@modelcontextprotocol/server";
import * as z from "zod";
import { parseFileUri } from "../tools/uri.ts";
import type { ResourceContent, ResourceContext, Toolset } from "../toolsets/toolset.ts";
import type { CallParts } from "./calls.ts";

const uriParams = z.object({ uri: z.string().max(16_384) });

/**
 * A toolset's resources; empty lists if it has none. Kept outputs that replies link to can be read, too: the full text
 * or picture where a reply shows less.
 */
export function offerToolsetResources(
  server: Server,
  { sessions, store, options, log }: CallParts,
  { toolset: { resources }, owner }: { toolset: Toolset; owner: string },
): void {
  const context = { sessions, store, options, owner };
  server.setRequestHandler("resources/list", async () => ({ resources: (await resources?.list?.(context)) ?? [] }));
  server.setRequestHandler("resources/templates/list", () => ({ resourceTemplates: resources?.templates ?? [] }));
  server.setRequestHandler("resources/read", { params: uriParams }, async ({ uri }) => {
    const code = resources?.errorCode ?? ProtocolErrorCode.InvalidParams;
    const refuse = (message: string) => new ProtocolError(code, message, { uri });
    const content = await read(uri).catch((error: Error) => {
      log.debug(`cannot read ${uri}: ${error}`);
      throw refuse(error.message);
    });
    if (!content) throw refuse(`Unknown resource: ${uri.slice(0, 200)}`);
    const { mimeType } = content;
    const body = "text" in content ? { text: content.text } : { blob: Buffer.from(content.blob).toString("base64") };
    return { contents: [{ uri, mimeType, ...body }] };
  });

  async function read(uri: string): Promise<ResourceContent | undefined> {
    return (await resources?.read(uri, context)) ?? keptOutput(uri, context);
  }
}

async function keptOutput(
  uri: string,
  { sessions, store, owner }: ResourceContext,
): Promise<ResourceContent | undefined> {
  const target = parseFileUri(uri);
  if (!target?.path.startsWith(".outputs/")) return undefined;
  const session = await sessions.get(owner, target.sessionId);
  const found = await store.getBlob(`cell://${session.id}/${target.path}`);
  if (!found) return undefined;
  const { bytes, mimeType } = found;
  if (mimeType.startsWith("text/")) return { mimeType, text: Buffer.from(bytes).toString("utf8") };
  return { mimeType, blob: bytes };
}
