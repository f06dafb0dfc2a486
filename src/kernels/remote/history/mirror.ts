import { CellwrightError } from "../../../errors.ts";
import type { Log } from "../../../log.ts";
import type { Mirror } from "../../../store/store.ts";
import { HelperRefusal } from "../server/refusal.ts";
import { compare, MirrorCopy, pullAll, tokenOf } from "./mirror-copy.ts";
import { askPlace, JOURNAL, look, type MirrorPlace, RECORD } from "./mirror-place.ts";

export type { MirrorPlace } from "./mirror-place.ts";

export interface MirrorParts {
  /** All servers. */
  places: MirrorPlace[];
  /** The session's current server; undefined before it has one. */
  placeOf(sessionId: string): MirrorPlace | undefined;
  log: Log;
}

/** Limit per session: code on a server may have filled it. */
const MAX_PULLED_BYTES = 2_000_000_000;

/** Copies of sessions on Jupyter servers: `{notebooks-folder}/.cellwright/{sessionId}/`. */
export function createMirror({ places, placeOf, log }: MirrorParts): Mirror {
  const copies = new Map<string, MirrorCopy>();
  const keyOf = (place: MirrorPlace, sessionId: string) => `${sessionId} ${places.indexOf(place)}`;

  async function pushTo(place: MirrorPlace, sessionId: string, folder: string): Promise<void> {
    const key = keyOf(place, sessionId);
    const copy = copies.get(key) ?? (await MirrorCopy.meet(place, sessionId, folder));
    copies.set(key, copy);
    try {
      await copy.push();
    } catch (error) {
      // The next push reads the copy again and finds what is missing.
      copies.delete(key);
      throw error;
    }
  }

  /** Asks all servers and ignores unreachable ones. Throws if none is reachable. */
  async function eachPlace<T>(ask: (place: MirrorPlace) => Promise<T>): Promise<{ place: MirrorPlace; value: T }[]> {
    const answers = await Promise.allSettled(places.map(ask));
    const failures = answers.filter((answer) => answer.status === "rejected");
    for (const { reason } of failures) log.debug(`a copy of a session cannot be read: ${reason}`);
    if (failures[0] && failures.length === places.length) throw failures[0].reason;
    return answers.flatMap((answer, index) => {
      const place = places[index];
      return place && answer.status === "fulfilled" ? [{ place, value: answer.value }] : [];
    });
  }

  return {
    async push(sessionId, folder) {
      const place = placeOf(sessionId);
      if (!place) return;
      try {
        await pushTo(place, sessionId, folder);
      } catch (error) {
        // The copy, or a part of it, was removed meanwhile.
        if (!(error instanceof HelperRefusal) || error.refusal.kind !== "gap") throw error;
        await pushTo(place, sessionId, folder);
      }
    },

    async claim(sessionId, folder) {
      const token = await tokenOf(folder);
      const answers = await eachPlace((place) => {
        const holder = { token, instance: place.instance };
        return askPlace<boolean>(place, "mirror_take", { session: sessionId, holder });
      });
      if (answers.some(({ value }) => !value)) return false;
      for (const { place } of answers) {
        const { relation } = await compare(place, sessionId, folder);
        if (relation === "continuation") await pullAll(place, sessionId, folder);
      }
      return true;
    },

    async list() {
      const lists = await eachPlace((place) => askPlace<string[]>(place, "mirror_list", {}));
      return [...new Set(lists.flatMap(({ value }) => value))];
    },

    async pull(sessionId, folder) {
      const looks = await eachPlace((place) => look(place, sessionId, 0));
      const [best] = looks
        .filter(({ value }) => RECORD in value.files)
        .sort((one, other) => (other.value.files[JOURNAL] ?? 0) - (one.value.files[JOURNAL] ?? 0));
      if (!best) throw new CellwrightError("session_not_found", `No Jupyter server has session \`${sessionId}\`.`);
      const totalBytes = Object.values(best.value.files).reduce((sum, size) => sum + size, 0);
      if (totalBytes > MAX_PULLED_BYTES) {
        const message = `The copy of session \`${sessionId}\` at ${best.place.name} has ${totalBytes} bytes.`;
        throw new CellwrightError("too_large", `${message} At most ${MAX_PULLED_BYTES} are fetched.`);
      }
      await pullAll(best.place, sessionId, folder);
    },

    async forget(sessionId) {
      for (const place of places) copies.delete(keyOf(place, sessionId));
      const removals = places.map(async (place) => {
        while (await askPlace<boolean>(place, "forget", { session: sessionId }));
      });
      const failed = (await Promise.allSettled(removals)).find((removal) => removal.status === "rejected");
      if (failed) throw failed.reason;
    },
  };
}
