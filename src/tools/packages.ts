import * as z from "zod";
import { findOpenSession, sessionArgument } from "./session-argument.ts";
import { defineTool } from "./tool.ts";

const installPackages = defineTool({
  name: "install_packages",
  title: "Install packages",
  description:
    "Installs Python packages in a session; variables are kept. In WebAssembly, imports of a cell are also installed automatically.",
  readOnly: false,
  input: z.object({
    session_id: sessionArgument,
    packages: z.array(z.string().min(1)).min(1).max(50).describe("Names, optionally with a version: pandas==3.0.2."),
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
