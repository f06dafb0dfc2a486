import { cutText, shareOut } from "./cut.ts";
import type { Text } from "./texts.ts";

/**
 * Shares the budget out. Exceptions come first, the last one before the others, since they say what to do next; then
 * late output, which is not what was asked for, up to a quarter; then everything else alike.
 */
export function cutAll(texts: Text[], budget: number): Map<Text, string> {
  const shown = new Map<Text, string>();
  const ofKind = (kind: Text["kind"]) => texts.filter((text) => text.kind === kind);
  let left = budget;
  for (const text of ofKind("error").reverse()) cut(text, Math.min(text.chars, budget * 0.4, left * 0.6), 0.3);
  cutAlike(ofKind("late"), Math.min(left, budget * 0.25));
  cutAlike(ofKind("output"), left);
  return shown;

  function cutAlike(own: Text[], total: number): void {
    const needs = own.map((text) => text.chars);
    const shares = shareOut(needs, Math.max(0, total));
    for (const [index, text] of own.entries()) cut(text, shares[index] ?? 0, 0.5);
  }

  function cut(text: Text, share: number, headShare: number): void {
    const { gaps, where } = text;
    const result = cutText(text.shown, Math.floor(share), { gaps, headShare, where });
    shown.set(text, result);
    left -= result.length;
  }
}
