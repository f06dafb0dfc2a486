import type { MimeBundle, Output } from "../execution.ts";
import type { Workspace } from "../workspace/workspace.ts";

/** A picture that a cell showed, now a file of its session. */
export interface SavedDisplay {
  /** Its place among the cell's outputs. */
  output: number;
  path: string;
  /** It could not be drawn, and why: then it is saved as a page. */
  notDrawn?: string;
}

export type SaveDisplays = (outputs: Output[], workspace: Workspace) => Promise<SavedDisplay[]>;

export interface DisplaySaverParts {
  /** A PNG of a figure that is only a description, or why there is none. */
  draw(figure: MimeBundle): Promise<Uint8Array | { failure: string }>;
  now?: () => number;
}

/** Forms of a picture, the best first, and the names of their files. */
const pictures = { "image/png": "png", "image/jpeg": "jpeg", "image/svg+xml": "svg" } as const;
const PLOTLY = "application/vnd.plotly.v1+json";

/** Saves what cells show as pictures, as `inline_{ms}.png` and the like; a plotly figure as `plotly_{ms}.png`. */
export function createDisplaySaver({ draw, now = Date.now }: DisplaySaverParts): SaveDisplays {
  return async (outputs, workspace) => {
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
  };
}

interface DisplayFile {
  bytes: Uint8Array;
  extension: string;
  notDrawn?: string;
}

async function fileOf(data: MimeBundle, draw: DisplaySaverParts["draw"]): Promise<DisplayFile | undefined> {
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

/** Two pictures of one millisecond get a name each. */
function freeName(stem: string, extension: string, taken: Set<string>): string {
  for (let count = 1; ; count += 1) {
    const name = `${stem}${count === 1 ? "" : `-${count}`}.${extension}`;
    if (!taken.has(name)) return name;
  }
}
