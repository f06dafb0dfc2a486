import { requirement } from "./requirements.ts";

const ATTEMPTS = 3;

/**
 * The first reply that has a picture. A reply does not wait for a browser that takes too long to start: on a busy machine
 * the first may come without a picture, and the next finds the browser running.
 */
export async function drawn<Reply>(ask: () => Promise<Reply>, hasPicture: (reply: Reply) => boolean): Promise<Reply> {
  let reply = await ask();
  for (let left = ATTEMPTS - 1; left > 0 && requirement("chromium").ok && !hasPicture(reply); left -= 1) {
    reply = await ask();
  }
  return reply;
}
