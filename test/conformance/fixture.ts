/**
 * The tools, resources and prompts that `@modelcontextprotocol/conformance` looks for by name, behind the product's own
 * HTTP code. Prints its address. Run by a Node that reads TypeScript: `node test/conformance/fixture.ts`.
 */
import { setTimeout as delay } from "node:timers/promises";
import { completable, McpServer, ResourceTemplate, type ServerContext } from "@modelcontextprotocol/server";
import * as z from "zod";
import { createHttpApp } from "../../src/http/app.ts";
import { createLog } from "../../src/log.ts";
import { createMcpRoute } from "../../src/mcp/http.ts";

const png = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==";
const wav = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA=";

const text = (value: string) => ({ type: "text" as const, text: value });
const image = { type: "image" as const, data: png, mimeType: "image/png" };
const embedded = (uri: string, mimeType: string, content: string) => ({
  type: "resource" as const,
  resource: { uri, mimeType, text: content },
});

async function createServer(): Promise<McpServer> {
  const server = new McpServer(
    { name: "conformance-fixture", version: "1.0.0" },
    { capabilities: { logging: {}, completions: {}, resources: { subscribe: true, listChanged: true } } },
  );
  addTools(server);
  addResources(server);
  addPrompts(server);
  return server;
}

function addTools(server: McpServer): void {
  const answer = (name: string, content: (ReturnType<typeof text> | typeof image | ReturnType<typeof embedded>)[]) =>
    server.registerTool(name, { description: name }, async () => ({ content }));
  answer("test_simple_text", [text("This is a simple text response for testing.")]);
  answer("test_image_content", [image]);
  answer("test_embedded_resource", [
    embedded("test://embedded-resource", "text/plain", "This is an embedded resource content."),
  ]);
  answer("test_multiple_content_types", [
    text("Multiple content types test:"),
    image,
    embedded("test://mixed-content-resource", "application/json", '{"test":"data","value":123}'),
  ]);
  server.registerTool("test_audio_content", { description: "audio" }, async () => ({
    content: [{ type: "audio", data: wav, mimeType: "audio/wav" }],
  }));
  server.registerTool("test_error_handling", { description: "fails" }, async () => {
    throw new Error("This tool intentionally returns an error for testing");
  });
  server.registerTool("test_tool_with_logging", { description: "logs" }, async ({ mcpReq }: ServerContext) => {
    for (const step of ["started", "processing data", "completed"]) {
      const params = { level: "info" as const, data: `Tool execution ${step}` };
      await mcpReq.notify({ method: "notifications/message", params });
      await delay(50);
    }
    return { content: [text("done")] };
  });
  server.registerTool("test_tool_with_progress", { description: "progresses" }, async ({ mcpReq }: ServerContext) => {
    const progressToken = mcpReq._meta?.progressToken;
    for (const progress of [0, 50, 100]) {
      const params = { progressToken: progressToken ?? 0, progress, total: 100 };
      if (progressToken !== undefined) await mcpReq.notify({ method: "notifications/progress", params });
      await delay(50);
    }
    return { content: [text(String(progressToken))] };
  });
}

function addResources(server: McpServer): void {
  const textResource = (name: string, uri: string, content: string) =>
    server.registerResource(name, uri, { mimeType: "text/plain" }, async () => ({
      contents: [{ uri, mimeType: "text/plain", text: content }],
    }));
  textResource("text", "test://static-text", "This is the content of the static text resource.");
  textResource("watched", "test://watched-resource", "watched");
  server.registerResource("binary", "test://static-binary", { mimeType: "image/png" }, async ({ href: uri }) => ({
    contents: [{ uri, mimeType: "image/png", blob: png }],
  }));
  const template = new ResourceTemplate("test://template/{id}/data", { list: undefined });
  server.registerResource("template", template, { mimeType: "application/json" }, async ({ href: uri }, { id }) => {
    const data = JSON.stringify({ id, templateTest: true, data: `Data for ID: ${id}` });
    return { contents: [{ uri, mimeType: "application/json", text: data }] };
  });
  server.server.setRequestHandler("resources/subscribe", () => ({}));
  server.server.setRequestHandler("resources/unsubscribe", () => ({}));
}

function addPrompts(server: McpServer): void {
  type Content = ReturnType<typeof text> | typeof image | ReturnType<typeof embedded>;
  const messages = (...contents: Content[]) => ({
    messages: contents.map((content) => ({ role: "user" as const, content })),
  });
  server.registerPrompt("test_simple_prompt", { description: "simple" }, async () =>
    messages(text("This is a simple prompt for testing.")),
  );
  const cities = completable(z.string().describe("first"), (start) =>
    ["paris", "park", "party"].filter((city) => city.startsWith(start)),
  );
  server.registerPrompt(
    "test_prompt_with_arguments",
    { description: "arguments", argsSchema: z.object({ arg1: cities, arg2: z.string().describe("second") }) },
    async ({ arg1, arg2 }) => messages(text(`Prompt with arguments: arg1='${arg1}', arg2='${arg2}'`)),
  );
  server.registerPrompt(
    "test_prompt_with_embedded_resource",
    { description: "resource", argsSchema: z.object({ resourceUri: z.string().describe("URI") }) },
    async ({ resourceUri }) =>
      messages(
        embedded(resourceUri, "text/plain", "Embedded resource content for testing."),
        text("Please process the embedded resource above."),
      ),
  );
  server.registerPrompt("test_prompt_with_image", { description: "image" }, async () =>
    messages(image, text("Please analyze the image above.")),
  );
}

const log = createLog("error");
const app = createHttpApp({
  options: { host: "127.0.0.1", port: 0, allowedHosts: [], authToken: [] },
  routes: { "/mcp": createMcpRoute({ createServer, maxRequestBytes: 4 * 1024 * 1024, log }) },
  log,
});
process.stdout.write(`${(await app.listen()).url}/mcp\n`);
