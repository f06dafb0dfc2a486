/** Names of files and folders that usually hold secrets. Case does not matter; a folder stands for all that is in it. */
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

/** The name in a path that usually holds a secret, if one does. */
export function secretName(path: string): string | undefined {
  return namesIn(path).find((name) => secrets.some((pattern) => pattern.test(name.toLowerCase())));
}

/** Windows takes dots and spaces at the end of a name, and a stream after a colon, for the name without them. */
function namesIn(path: string): string[] {
  return path
    .split(/[/\\]/)
    .map((name) => name.replace(/:.*$/, "").replace(/[. ]+$/, ""))
    .filter((name) => name !== "");
}
