/** How often a fault is provoked: races show only in many rounds. `npm run faults -- --short` has fewer. */
export function rounds(whole: number, short: number): number {
  return process.env.CELLWRIGHT_SHORT === "1" ? short : whole;
}
