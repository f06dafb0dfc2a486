import * as z from "zod";

/** Pydantic takes `"12"` and `12.0` for 12. */
export const lenientInteger = z.preprocess((value) => {
  if (typeof value !== "string") return value;
  return /^\s*[+-]?\d+(\.0*)?\s*$/.test(value) ? Number(value) : value;
}, z.number().int());

/** Pydantic takes `"yes"` and `1` for true. */
export const lenientBoolean = z.preprocess((value) => {
  const word = typeof value === "string" || typeof value === "number" ? String(value).toLowerCase() : value;
  if (["true", "t", "yes", "y", "on", "1"].includes(word as string)) return true;
  if (["false", "f", "no", "n", "off", "0"].includes(word as string)) return false;
  return value;
}, z.boolean());
