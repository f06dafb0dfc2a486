/** Names of files and folders that usually hold secrets, ignoring case. A folder includes everything in it. */
const secrets: RegExp[] = [
  /^\.env(\..*)?$/,
  /\.env$/,
  /^\.envrc$/,
  /\.(pem|key|p12|pfx|p8|jks|keystore|kdbx|ppk|asc|gpg)$/,
  /^id_(rsa|dsa|ecdsa|ed25519)/,
  /^\.(npmrc|yarnrc|yarnrc\.yml|pypirc|netrc|pgpass|my\.cnf|git-credentials|htpasswd|dockercfg|vault-token|boto|s3cfg)$/,
  /^_netrc$/,
  /^credentials(\..*)?$/,
  /^(client_)?secrets?(\..*)?$/,
  /^(application_default_credentials|service[-_]account.*|gha-creds-.*)\.json$/,
  /^\.(aws|azure|gcloud|ssh|gnupg|kube|docker|password-store|oci|terraform\.d)$/,
  /^(wallet\.dat|known_hosts|authorized_keys|shadow|passwd|.*\.tfstate(\.backup)?|.*\.tfvars|.*_history)$/,
  /^(cookies|login data|key4\.db|logins\.json)(\..*)?$/,
];

/** The first such name in a path. */
export function secretName(path: string): string | undefined {
  return namesIn(path).find((name) => secrets.some((pattern) => pattern.test(name.toLowerCase())));
}

/** Windows ignores trailing dots and spaces in a name, and a stream name after a colon. */
function namesIn(path: string): string[] {
  return path
    .split(/[/\\]/)
    .map((name) => name.replace(/:.*$/, "").replace(/[. ]+$/, ""))
    .filter((name) => name !== "");
}
