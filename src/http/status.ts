import * as z from "zod";
import type { Backends } from "../kernels/kernel.ts";
import { answerJson } from "./answer.ts";
import type { Route } from "./app.ts";
import { createBodyReader } from "./body.ts";
import { checkJsonPost } from "./json-post.ts";
import { refuse } from "./refuse.ts";

/** The request contains one backend name. */
const MAX_BODY_BYTES = 10_000;

const drainBody = z.object({ backend: z.coerce.string(), draining: z.boolean().default(true) });

/** `/status`: state of the backends. `/drain`: stops or resumes new sessions on one of them. */
export function createStatusRoutes(backends: Backends): Record<string, Route> {
  const readBody = createBodyReader(MAX_BODY_BYTES);
  return {
    "/status": {
      async handle(request, response) {
        if (request.method !== "GET") {
          return refuse(response, 405, "Only GET is allowed here.", { headers: { allow: "GET" } });
        }
        answerJson(response, 200, backends.status());
      },
    },
    "/drain": {
      async handle(request, response, caller) {
        checkJsonPost(request);
        const body = drainBody.safeParse(parseJson(await readBody(request, response, caller)));
        if (!body.success) {
          return refuse(response, 400, 'Give {"backend": "18901", "draining": true}, with a name that /status shows.');
        }
        const { backend, draining } = body.data;
        if (!backends.drain(backend, draining)) {
          const names = Object.keys(backends.status().ports);
          return refuse(response, 404, `There is no backend ${backend.slice(0, 100)}; there are ${names.join(", ")}.`);
        }
        answerJson(response, 200, backends.status());
      },
    },
  };
}

function parseJson(bytes: Buffer): unknown {
  try {
    return JSON.parse(bytes.toString("utf8"));
  } catch {
    return undefined;
  }
}
