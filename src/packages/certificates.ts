/** Variables with which people name a file of certificates, the most particular first. */
const variables = [
  "DENO_CERT",
  "PIP_CERT",
  "SSL_CERT_FILE",
  "NODE_EXTRA_CA_CERTS",
  "REQUESTS_CA_BUNDLE",
  "CURL_CA_BUNDLE",
];

/** The file of certificates that is to be trusted besides the usual ones, if one is named. */
export function certificateFile(env: NodeJS.ProcessEnv): string | undefined {
  return variables.map((name) => env[name]).find((value) => value);
}
