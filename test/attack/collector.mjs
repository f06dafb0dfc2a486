// Preloaded into the attacked servers, to tell leaks from garbage that V8 has not collected yet.
process.on("SIGUSR2", () => globalThis.gc());
