import { execFileSync, spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

export const hasOpenssl = spawnSync("openssl", ["version"]).status === 0;

export interface Authority {
  /** The file with the authority's certificate, which is not trusted by default. */
  certificateFile: string;
  /** The certificate of a server on `localhost`, signed by it. */
  server: { key: Buffer; cert: Buffer };
  remove(): void;
}

export function createAuthority(): Authority {
  const folder = mkdtempSync(join(tmpdir(), "cellwright-certificates-"));
  const openssl = (...args: string[]) => execFileSync("openssl", args, { cwd: folder, stdio: "ignore" });
  const key = ["-newkey", "rsa:2048", "-nodes"];
  openssl("req", "-x509", ...key, "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=test authority", "-days", "2");
  openssl("req", ...key, "-keyout", "own.key", "-out", "own.csr", "-subj", "/CN=localhost");
  writeFileSync(join(folder, "names"), "subjectAltName=DNS:localhost");
  const signing = ["-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2", "-extfile", "names"];
  openssl("x509", "-req", "-in", "own.csr", "-out", "own.pem", ...signing);
  return {
    certificateFile: join(folder, "ca.pem"),
    server: { key: readFileSync(join(folder, "own.key")), cert: readFileSync(join(folder, "own.pem")) },
    remove: () => rmSync(folder, { recursive: true, force: true }),
  };
}
