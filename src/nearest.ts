/** The names most similar to the requested one, best first, so that a typo does not cost a listing. */
export function nearest(wanted: string, names: Iterable<string>): string[] {
  const scored = [...names].map((name) => ({ name, score: likeness(wanted.toLowerCase(), name.toLowerCase()) }));
  return scored
    .filter(({ score }) => score > 0.4)
    .sort((one, other) => other.score - one.score)
    .slice(0, 3)
    .map(({ name }) => name);
}

/** Dice coefficient of letter pairs: 1 for equal texts, 0 for no pair in common. */
function likeness(one: string, other: string): number {
  if (one === other) return 1;
  const left = pairs(one);
  const right = pairs(other);
  let common = 0;
  for (const pair of left) if (right.has(pair)) common += 1;
  return (2 * common) / (left.size + right.size);
}

function pairs(text: string): Set<string> {
  const padded = ` ${text} `;
  const found = new Set<string>();
  for (let index = 0; index < padded.length - 1; index += 1) found.add(padded.slice(index, index + 2));
  return found;
}
