/** A time in the past, for files that should look untouched since. */
export const ago = (ms: number) => new Date(Date.now() - ms);
