/** Environment variables that name a CA bundle, the most specific first. */
const variables = [
  "DENO_CERT",
  "PIP_CERT",
  "SSL_CERT_FILE",
  "NODE_EXTRA_CA_CERTS",
  "REQUESTS_CA_BUNDLE",
  "CURL_CA_BUNDLE",
];

/** The CA bundle to trust in addition to the system's, if one is set. */
export function certificateFile(env: NodeJS.ProcessEnv): string | undefined {
  return variables.map((name) => env[name]).find((value) => value);
}
