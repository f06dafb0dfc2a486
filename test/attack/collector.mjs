// Loaded into the attacked servers, so that what they keep can be told from what V8 has not collected yet.
process.on("SIGUSR2", () => globalThis.gc());
