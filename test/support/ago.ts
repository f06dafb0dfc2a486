/** A moment in the past, for files that should look as if they had been left alone since. */
export const ago = (ms: number) => new Date(Date.now() - ms);
