import { ProtocolError, ProtocolErrorCode, type Server } from "@modelcontextprotocol/server";
import * as z from "zod";
import type { CallParts } from "./calls.ts";
import type { Toolset } from "./toolset.ts";

const uriParams = z.object({ uri: z.string().max(16_384) });

/** A toolset's own resources; a system that has none answers with empty lists. */
export function offerToolsetResources(
  server: Server,
  { sessions, store, options, log }: CallParts,
  { toolset: { resources }, owner }: { toolset: Toolset; owner: string },
): void {
  const context = { sessions, store, options, owner };
  server.setRequestHandler("resources/list", async () => ({ resources: (await resources?.list?.(context)) ?? [] }));
  server.setRequestHandler("resources/templates/list", () => ({ resourceTemplates: resources?.templates ?? [] }));
  server.setRequestHandler("resources/read", { params: uriParams }, async ({ uri }) => {
    const refuse = (message: string) => new ProtocolError(ProtocolErrorCode.InvalidParams, message, { uri });
    const content = await resources?.read(uri, context).catch((error: Error) => {
      log.debug(`${uri} cannot be read: ${error}`);
      throw refuse(error.message);
    });
    if (!content) throw refuse(`Unknown resource: ${uri.slice(0, 200)}`);
    const { mimeType } = content;
    const body = "text" in content ? { text: content.text } : { blob: Buffer.from(content.blob).toString("base64") };
    return { contents: [{ uri, mimeType, ...body }] };
  });
}
