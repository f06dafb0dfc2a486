import { existsSync } from "node:fs";
import { afterAll, afterEach, describe, expect, test } from "vitest";
import type { Browser } from "../../src/browser/browser.ts";
import { Page } from "../../src/browser/page.ts";
import { describeWith } from "../support/requirements.ts";
import { drawOne, look, openBrowser } from "./support.ts";

const bars = (colour: string) => ({
  type: "plotly" as const,
  figure: { data: [{ type: "bar", y: [1, 3, 2], marker: { color: colour } }], layout: { title: { text: "Bars" } } },
});
const html = (source: string) => ({ type: "html" as const, html: source });

describeWith("chromium", "a browser for figures", () => {
  const { browser, said } = openBrowser();
  afterAll(() => browser.dispose());

  test("starts with the first figure, and says which sandbox it is in", async () => {
    expect(said).toEqual([]);
    const { width, height, colours, share } = look((await drawOne(browser, bars("#ff0000")))?.bytes);
    expect({ width, height }).toEqual({ width: 700, height: 500 });
    expect(colours).toBeGreaterThan(20);
    expect(share("#ff0000")).toBeGreaterThan(0.1);
    expect(said).toEqual([expect.stringMatching(/^figures are drawn by a browser \((namespaces|its own)/)]);
  });

  test("draws figures of a reply one by one, of several replies at the same time, and mixes none up", async () => {
    const drawer = browser.openDrawer();
    const [first, second, other] = await Promise.all([
      drawer.draw(bars("#00ff00")),
      drawer.draw(bars("#0000ff")),
      drawOne(browser, bars("#ff00ff")),
    ]);
    drawer.close();
    expect(look(first?.bytes).share("#00ff00")).toBeGreaterThan(0.1);
    expect(look(second?.bytes).share("#0000ff")).toBeGreaterThan(0.1);
    expect(look(other?.bytes).share("#ff00ff")).toBeGreaterThan(0.1);
  });

  test("figures are as large as they say, within reason", async () => {
    const sizes = [
      { width: 300, height: 200 },
      { width: 1e9, height: 100 },
      { width: "12", height: -1 },
    ];
    const drawn = await drawAll(sizes.map((layout) => ({ data: [{ y: [1, 2] }], layout })));
    expect(drawn.map((bytes) => look(bytes)).map(({ width, height }) => [width, height])).toEqual([
      [300, 200],
      [expect.closeTo(1568, -1), expect.closeTo(20, -1)],
      [700, 500],
    ]);
  });

  test("figures that are none are not drawn, and those after them are", async () => {
    const nonsense = [
      undefined,
      { data: { a: 1 }, layout: [] },
      JSON.parse('{"__proto__": {"x": 1}, "data": [{"__proto__": null, "y": [1]}], "layout": {}}'),
      // Map tiles would have to be downloaded.
      { data: [{ type: "scattermap", lat: [1], lon: [1] }], layout: {} },
    ];
    const drawn = await drawAll([...nonsense, bars("#00ff00").figure]);
    expect(look(drawn.at(-1)).share("#00ff00")).toBeGreaterThan(0.1);
    expect(drawn.at(-2)).toBeUndefined();
  });

  test("a map brings its outlines along", async () => {
    const data = [{ type: "choropleth", locations: ["FRA", "BRA"], z: [1, 2], showscale: false }];
    const layout = { geo: { landcolor: "#00ff00", showland: true } };
    const [map] = await drawAll([{ data, layout }]);
    expect(look(map).share("#00ff00")).toBeGreaterThan(0.05);
  });

  test("a table is as large as it is, and its programs do not run", async () => {
    const trap = `<img src="data:image/png;base64,AAAA" onerror="document.body.style.background='#ff0000'">`;
    const table = `<table><tr><td style="background:#00ff00;width:200px;height:100px">cell</td></tr></table>${trap}`;
    const { width, height, share } = look((await drawOne(browser, html(table)))?.bytes);
    expect({ width, height }).toEqual({ width: expect.closeTo(220, -2), height: expect.closeTo(130, -2) });
    expect(share("#00ff00")).toBeGreaterThan(0.5);
    expect(share("#ff0000")).toBe(0);
    // The trap works: with scripts enabled it is triggered.
    const scripted = look((await drawOne(browser, html(`${table}<script></script>`)))?.bytes);
    expect(scripted.share("#ff0000")).toBeGreaterThan(0.1);
  });

  test("a page that draws by script is waited for, and sends no request", async () => {
    const page = `<canvas id="c" width="300" height="200"></canvas><script>
      alert("hello"); confirm("really?");
      setTimeout(() => { c.getContext("2d").fillStyle = "#0000ff"; c.getContext("2d").fillRect(0, 0, 300, 200); }, 50);
    </script>`;
    expect(look((await drawOne(browser, html(page)))?.bytes).share("#0000ff")).toBeGreaterThan(0.5);
  });

  test("of a long page its beginning is drawn, which is said", async () => {
    const drawn = await drawOne(browser, html(`<table>${"<tr><td>row".repeat(1000)}</table>`));
    expect(look(drawn?.bytes).height).toBe(1568);
    expect(drawn?.note).toMatch(/^the beginning of a page of \d+ × 2\d{4}$/);
  });

  /** In one reply. */
  async function drawAll(figures: unknown[]): Promise<(Buffer | undefined)[]> {
    const drawer = browser.openDrawer();
    const drawn: (Buffer | undefined)[] = [];
    for (const figure of figures) drawn.push((await drawer.draw({ type: "plotly", figure }))?.bytes);
    drawer.close();
    return drawn;
  }
});

describeWith("chromium", "a browser that is attacked or breaks", () => {
  let browser: Browser;
  afterEach(() => browser.dispose());

  test("a page whose program has no end can be closed, and its browser goes on", async () => {
    ({ browser } = openBrowser());
    const running = await browser.running();
    const page = await Page.open(running, { width: 100, height: 100, scripts: true });
    const stuck = expect(page.evaluate("for (;;);")).rejects.toThrow("the page is gone");
    await page.close();
    await stuck;
    expect(look((await drawOne(browser, html("<b>next</b>")))?.bytes).colours).toBeGreaterThan(5);
    expect(await browser.running()).toBe(running);
  });

  test("a figure that takes too long is aborted", async () => {
    let said: string[];
    ({ browser, said } = openBrowser({ limits: { figureMs: 1_000 } }));
    expect(await drawOne(browser, html("<script>for (;;);</script>"))).toBeUndefined();
    expect(said).toContain("a figure was not drawn: it took more than 1 s");
  });

  test("a page that takes all memory ends the browser, and the next figure gets a new one", async () => {
    let said: string[];
    ({ browser, said } = openBrowser({ limits: { memoryMb: 500 } }));
    const greedy = "<script>const all = []; for (;;) all.push(new Uint8Array(16e6).fill(1));</script>";
    expect(await drawOne(browser, html(greedy))).toBeUndefined();
    expect(look((await drawOne(browser, html("<b>next</b>")))?.bytes).colours).toBeGreaterThan(5);
    expect(said.join("\n")).toMatch(/more than 500 MB|the page crashed/);
  });

  test("a browser that is killed while several draw is replaced for all of them", async () => {
    ({ browser } = openBrowser());
    const { pid } = await browser.running();
    const slow = html(
      "<b>slow</b><script>for (let at = 0; at < 10; at += 1) setTimeout(() => document.body.append('.'), at * 100)</script>",
    );
    const drawing = [drawOne(browser, slow), drawOne(browser, slow)];
    await drawOne(browser, html("<b>quick</b>"));
    process.kill(-pid, "SIGKILL");
    for (const drawn of await Promise.all(drawing)) expect(look(drawn?.bytes).colours).toBeGreaterThan(5);
  });

  test("ends with the program, and when it is idle", async () => {
    ({ browser } = openBrowser({ limits: { idleMs: 1 } }));
    await drawOne(browser, html("<b>a</b>"));
    const idle = await browser.running();
    expect(await idle.closed).toBe("idle");
    const next = await browser.running();
    await browser.dispose();
    expect(existsSync(`/proc/${next.pid}`) && !next.isGone).toBe(false);
    expect(await drawOne(browser, html("<b>b</b>"))).toBeUndefined();
  });
});

describe("without a browser", () => {
  test("nothing is drawn, and the reason is said once", async () => {
    const { browser, said } = openBrowser({ program: "/nowhere/chromium" });
    expect(await drawOne(browser, bars("#ff0000"))).toBeUndefined();
    expect(await drawOne(browser, html("<b>a</b>"))).toBeUndefined();
    expect(said).toEqual([expect.stringMatching(/^figures are described in text, not drawn: .*\/nowhere\/chromium/)]);
    await browser.dispose();
  });
});
