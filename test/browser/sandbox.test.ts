import { spawn } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { findBrowser } from "../../src/browser/find.ts";
import { Page } from "../../src/browser/page.ts";
import type { BrowserProcess } from "../../src/browser/process.ts";
import { startBrowser } from "../../src/browser/process.ts";
import { createLog } from "../../src/log.ts";
import { describeWithIsolations } from "../support/isolations.ts";
import { describeWith } from "../support/requirements.ts";
import { drawOne, openBrowser } from "./support.ts";

/** Ways out of a page. Each would be noticed by the server at `origin`. */
const waysOut = (origin: string) => `<html><body>
  <img src="${origin}/img"><iframe src="${origin}/iframe"></iframe><link rel="stylesheet" href="${origin}/css">
  <script src="${origin}/script"></script>
  <script>
    fetch("${origin}/fetch", { mode: "no-cors" }).catch(() => {});
    navigator.sendBeacon("${origin}/beacon", "x");
    new WebSocket("${origin.replace("http", "ws")}/websocket").onerror = () => {};
    new Worker(URL.createObjectURL(new Blob(["fetch('${origin}/worker')"])));
    window.open("${origin}/open");
    setTimeout(() => { location.href = "${origin}/location"; }, 100);
  </script></body></html>`;

describeWith("chromium", "a page that wants out", () => {
  const heard: string[] = [];
  const server = createServer((request, response) => {
    heard.push(request.url ?? "");
    response.end("reached");
  });
  let origin: string;
  let folder: string;
  beforeAll(async () => {
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    folder = await mkdtemp(join(tmpdir(), "cellwright-walls-"));
    await writeFile(join(folder, "secret.txt"), "the secret");
    await writeFile(join(folder, "page.html"), waysOut(origin));
  });
  afterAll(async () => {
    server.close();
    server.closeAllConnections();
    await rm(folder, { recursive: true });
  });

  test("is heard without a sandbox", async () => {
    // Ends by itself at the latest when the page times out.
    const args = ["--headless=new", "--no-sandbox", "--disable-gpu", `--user-data-dir=${join(folder, "profile")}`];
    const child = spawn(findBrowser() ?? "", [...args, "--timeout=5000", "--dump-dom", `file://${folder}/page.html`], {
      stdio: "ignore",
      env: { PATH: process.env.PATH ?? "", HOME: folder },
    });
    await new Promise((resolve) => child.once("exit", resolve));
    expect(heard).toEqual(expect.arrayContaining(["/img", "/iframe", "/script", "/fetch"]));
    heard.length = 0;
  });

  test("is not heard where figures are drawn", async () => {
    const { browser } = openBrowser();
    await drawOne(browser, { type: "html", html: waysOut(origin) });
    await drawOne(browser, { type: "html", html: `<img src="${origin}/table"><table></table>` });
    const images = [{ source: `${origin}/plotly`, x: 0, y: 1, sizex: 1, sizey: 1 }];
    await drawOne(browser, { type: "plotly", figure: { data: [{ y: [1] }], layout: { images } } });
    await browser.dispose();
    expect(heard).toEqual([]);
  });

  describeWithIsolations(
    "with the browser itself taken over",
    (isolation) =>
      describe.each(["double", "jail"] as const)("in the sandbox %s", (kind) => {
        let browser: BrowserProcess;
        let page: Page;
        beforeAll(async () => {
          const program = findBrowser() ?? "";
          browser = await startBrowser(program, {
            sandbox: { kind, isolation },
            memoryMb: 1500,
            log: createLog("silent"),
          });
          page = await Page.open(browser, { width: 800, height: 600, scripts: true });
        });
        afterAll(async () => {
          browser.kill("the test is over");
          await browser.closed;
        });

        /** Navigates where no page may: DevTools has all rights of the browser. Undefined if nothing is there. */
        async function visit(url: string): Promise<string | undefined> {
          const { errorText } = await page.call<{ errorText?: string }>("Page.navigate", { url });
          if (errorText) return undefined;
          for (;;) {
            const [state, text] = (await page.evaluate(
              "[document.readyState, document.body?.innerText ?? '']",
            )) as string[];
            if (state === "complete") return text;
          }
        }

        test("the network is not available", async () => {
          expect(await visit(`${origin}/devtools`)).toBeUndefined();
          expect(heard).toEqual([]);
        });

        test("the files of the machine are not there, but those it needs are", async () => {
          expect(await visit("file:///usr/lib/os-release")).toContain("NAME=");
          expect(await visit(`file://${folder}/secret.txt`)).toBeUndefined();
          for (const path of ["/root", "/home", "/etc/passwd", "/etc/hostname", "/var", process.cwd()]) {
            expect(await visit(`file://${path}`), path).toBeUndefined();
          }
        });

        test("pages are kept apart by the browser's own sandbox, where it can be had", async () => {
          const isSandboxed = /You are adequately sandboxed/.test((await visit("chrome://sandbox")) ?? "");
          expect(isSandboxed).toBe(kind === "double");
        });
      }),
    ["namespaces"],
  );

  test.runIf(process.getuid?.() === 0)("no browser runs without any wall", async () => {
    // As root, Chromium's own sandbox does not work, and no other is available.
    const { browser, said } = openBrowser({ jail: "none" });
    expect(await drawOne(browser, { type: "html", html: "<table></table>" })).toBeUndefined();
    expect(said).toEqual([expect.stringMatching(/figures are described in text, not drawn.*sandbox/)]);
    await browser.dispose();
  });
});
