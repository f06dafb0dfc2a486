import type { Figure } from "../../browser/drawer.ts";

/** A figure that a browser can draw. */
export interface DrawableFigure {
  figure: Figure;
  /** Text beside the picture; without a picture, the whole text is shown. */
  caption?: string | undefined;
}

/** Elements of a page that text cannot represent. */
const visual = /<(?:table|svg|canvas|img|script|video|math)[\s>]/i;
const wholePage = /^\s*(?:<!doctype html|<html)/i;

/**
 * A plotly figure, a whole page with a script, as plotting libraries create them, or HTML without a text form, such as a
 * colored table. HTML with one, such as a pandas DataFrame, is shown as text.
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

/** Removes the prelude's lines about traces: the picture shows them. */
function withoutTraces(summary: string | undefined): string | undefined {
  return summary
    ?.split("\n")
    .filter((line) => !line.startsWith("- "))
    .join("\n");
}
