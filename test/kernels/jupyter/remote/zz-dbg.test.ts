import { setTimeout as pause } from "node:timers/promises";
import { test } from "vitest";
import { startJupyterServer } from "/work/main/test/support/jupyter-server.ts";
import { startStdio } from "/work/main/test/support/program.ts";
const python="/work/main/.cache/test-python/jupyter-server/bin/python";
test("x", async () => {
  let jupyter = await startJupyterServer(python);
  const { home, token } = jupyter; const port = Number(new URL(jupyter.url).port);
  const client = await startStdio({ args: ["--kernel","jupyter","--jupyter-url",jupyter.url,"--warm","0","--log-level","debug"], env: { JUPYTER_TOKEN: token } });
  const { session_id } = (await client.run("1")).execution;
  for (let r=0;r<3;r++){
  console.log((await client.run("kept = 1; open('runs.txt', 'a').write('x');", { session_id })).text);
  const t=Date.now(); const el=()=>Date.now()-t;
  const running = client.run("import time\nprint('begun', flush=True)\ntime.sleep(600)", { session_id });
  await pause(100*r);
  await jupyter.kill(); console.log("killed", el());
  jupyter = await startJupyterServer(python, { home, token, port }); console.log("restarted", el());
  const died = await running; console.log("ended", el(), died.text); console.log(client.stderr());
  console.log((await client.run("1+1", { session_id })).text);
  }
  await client.close(); await jupyter.stop();
}, 100000);
