import type { Figure } from "../../browser/drawer.ts";

/** What a browser can make a picture of. */
export interface DrawableFigure {
  figure: Figure;
  /** What is said beside the picture; without one, the whole text is. */
  caption?: string | undefined;
}

/** Parts of a page that words do not tell. */
const visual = /<(?:table|svg|canvas|img|script|video|math)[\s>]/i;
const wholePage = /^\s*(?:<!doctype html|<html)/i;

/**
 * A plotly figure; a whole page with a program in it, as plotting libraries make them; and what has no text of its own,
 * such as a table with colours. What does have one, such as a pandas DataFrame, is read and not looked at.
 */
export function figureOf({
  plotly,
  html,
  text,
}: {
  plotly: unknown;
  html: string | undefined;
  text: string | undefined;
}): DrawableFigure | undefined {
  if (typeof plotly === "object" && plotly !== null) {
    return { figure: { type: "plotly", figure: plotly }, caption: withoutTraces(text) };
  }
  if (html === undefined) return undefined;
  const isPlot = wholePage.test(html) && /<script[\s>]/i.test(html);
  if (!isPlot && (text !== undefined || !visual.test(html))) return undefined;
  return { figure: { type: "html", html }, caption: text };
}

/** The prelude tells each trace in a line of its own, and a picture shows them. */
function withoutTraces(summary: string | undefined): string | undefined {
  return summary
    ?.split("\n")
    .filter((line) => !line.startsWith("- "))
    .join("\n");
}
