import { certificateFile } from "../../../../packages/certificates.ts";

const proxyVariables = ["HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "NO_PROXY"];

/** The environment variables for network access (proxies, certificates), and no others. */
export function networkEnv(env: NodeJS.ProcessEnv): Record<string, string> {
  const found: Record<string, string> = {};
  for (const name of proxyVariables.flatMap((name) => [name, name.toLowerCase()])) {
    const value = env[name];
    if (value) found[name] = value;
  }
  const certificates = certificateFile(env);
  if (certificates) found.DENO_CERT = certificates;
  // A company's certificate is often installed only in the system.
  found.DENO_TLS_CA_STORE = env.DENO_TLS_CA_STORE || "system,mozilla";
  return found;
}
