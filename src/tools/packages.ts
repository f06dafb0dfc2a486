import * as z from "zod";
import { defineTool } from "../mcp/tool.ts";
import { findOpenSession, sessionArgument } from "./session-argument.ts";

const installPackages = defineTool({
  name: "install_packages",
  title: "Install packages",
  description:
    "Makes Python packages importable in a session; variables are kept. In WebAssembly, cells also install what they import by themselves.",
  readOnly: false,
  input: z.object({
    session_id: sessionArgument,
    packages: z.array(z.string().min(1)).min(1).max(50).describe("Names, with versions if wanted: pandas==3.0.2."),
  }),
  async run({ session_id, packages }, context) {
    const session = await findOpenSession(session_id, context);
    const { signal, progress } = context;
    const installed = await session.install(packages, { signal, progress });
    const names = installed.map(({ name, version, outdated }) => {
      return `${name} ${version}${outdated ? " (after reset_session; another version is loaded)" : ""}`;
    });
    return {
      type: "text",
      text: `Importable now: ${names.join(", ")}.`,
      data: { packages: installed.map((one) => ({ ...one })) },
    };
  },
});

export default [installPackages];
