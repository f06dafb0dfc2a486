import { certificateFile } from "../../../packages/certificates.ts";

const proxyVariables = ["HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "NO_PROXY"];

/** What a process that fetches has to know of the way out of this machine, and nothing else of the environment. */
export function networkEnv(env: NodeJS.ProcessEnv): Record<string, string> {
  const found: Record<string, string> = {};
  for (const name of proxyVariables.flatMap((name) => [name, name.toLowerCase()])) {
    const value = env[name];
    if (value) found[name] = value;
  }
  const certificates = certificateFile(env);
  if (certificates) found.DENO_CERT = certificates;
  // A company's certificate is often installed in the system and nowhere else.
  found.DENO_TLS_CA_STORE = env.DENO_TLS_CA_STORE || "system,mozilla";
  return found;
}
