import type { Run } from "../../engine/run/run.ts";
import type { MimeBundle, Output } from "../../execution.ts";
import type { Workspace } from "../../workspace/workspace.ts";
import type { GuestServices } from "../toolset.ts";

type Draw = GuestServices["draw"];

/** A displayed picture, saved as a file of its session. */
export interface SavedDisplay {
  /** Index among the cell's outputs. */
  output: number;
  path: string;
  /** Why it could not be drawn and was saved as HTML. */
  notDrawn?: string;
}

/** Picture types by preference, with their file extensions. */
const pictures = { "image/png": "png", "image/jpeg": "jpeg", "image/svg+xml": "svg" } as const;
export const PLOTLY = "application/vnd.plotly.v1+json";

/** Saves the pictures of ended cells as files of their sessions. */
export class DisplayFiles {
  readonly #saved = new WeakMap<Run, SavedDisplay[]>();

  of(run: Run): SavedDisplay[] {
    return this.#saved.get(run) ?? [];
  }

  async save(run: Run, workspace: Workspace, draw: Draw): Promise<void> {
    try {
      this.#saved.set(run, await saveDisplays(run.snapshot().outputs, workspace, { draw }));
    } catch {
      run.notices.push("What the cell showed could not be saved as files: the disk may be full.");
    }
  }
}

/** Saves a cell's pictures as `inline_{ms}.png` and similar, a plotly figure as `plotly_{ms}.png`. */
export async function saveDisplays(
  outputs: Output[],
  workspace: Workspace,
  { draw, now = Date.now }: { draw: Draw; now?: () => number },
): Promise<SavedDisplay[]> {
  const shown = outputs.flatMap((output, index) => ("data" in output ? [{ index, data: output.data }] : []));
  const found = shown.filter(({ data }) => pictureType(data) !== undefined || PLOTLY in data);
  if (found.length === 0) return [];
  const taken = new Set((await workspace.list(".")).entries.map(({ path }) => path));
  const saved: SavedDisplay[] = [];
  for (const { index, data } of found) {
    const file = await fileOf(data, draw);
    if (!file) continue;
    const path = freeName(`${PLOTLY in data ? "plotly" : "inline"}_${now()}`, file.extension, taken);
    taken.add(path);
    await workspace.write(path, file.bytes);
    saved.push({ output: index, path, ...(file.notDrawn === undefined ? {} : { notDrawn: file.notDrawn }) });
  }
  return saved;
}

interface DisplayFile {
  bytes: Uint8Array;
  extension: string;
  notDrawn?: string;
}

async function fileOf(data: MimeBundle, draw: Draw): Promise<DisplayFile | undefined> {
  const type = pictureType(data);
  if (type) {
    const encoding = type === "image/svg+xml" ? "utf8" : "base64";
    return { bytes: Buffer.from(textOf(data[type]) ?? "", encoding), extension: pictures[type] };
  }
  const drawn = await draw(data);
  if (!("failure" in drawn)) return { bytes: drawn, extension: "png" };
  const page = textOf(data["text/html"]);
  return page === undefined ? undefined : { bytes: Buffer.from(page), extension: "html", notDrawn: drawn.failure };
}

function pictureType(data: MimeBundle): keyof typeof pictures | undefined {
  return (Object.keys(pictures) as (keyof typeof pictures)[]).find((type) => textOf(data[type]) !== undefined);
}

function textOf(form: unknown): string | undefined {
  if (typeof form === "string") return form;
  return Array.isArray(form) && form.every((line) => typeof line === "string") ? form.join("") : undefined;
}

/** A unique name, also for two pictures within one millisecond. */
function freeName(stem: string, extension: string, taken: Set<string>): string {
  for (let count = 1; ; count += 1) {
    const name = `${stem}${count === 1 ? "" : `-${count}`}.${extension}`;
    if (!taken.has(name)) return name;
  }
}
