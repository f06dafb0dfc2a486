// The table, the scores and the gate.

const weights = { S5: 5, I4: 4, A2: 2, "A2*": 2, H1: 1 };

/** Prints the results; true if the gate is open. */
export function printReport(results, { seconds, tier, launcher, jailObstacle, localObstacle, privateNetwork }) {
  const rows = results.map(({ id, kernel, class: kind, what, outcome, control, seconds: took }) => [
    id,
    kernel,
    kind,
    what,
    outcome,
    control,
    took ? `${took.toFixed(1)} s` : "",
  ]);
  printTable(["id", "kernel", "class", "what", "result", "control", "time"], rows);
  const told = results.filter(({ outcome }) => outcome !== "passed");
  if (told.length > 0) console.log("");
  for (const { id, kernel, outcome, detail } of told) console.log(`${id} ${kernel} ${outcome}: ${detail}`);

  const open = results.filter((result) => result.open?.length > 0);
  if (open.length > 0) console.log("");
  for (const { id, kernel, open: notes } of open)
    for (const note of notes) console.log(`${id} ${kernel} open on ${tier}: ${note}`);

  const user = process.getuid?.() === 0 ? "root" : "an ordinary user";
  const outer = `${tier} by ${launcher}`;
  const wasmWalls = jailObstacle ? `Deno alone (${jailObstacle})` : `Deno and ${outer}; Deno alone`;
  const localWalls = localObstacle ? `none (${localObstacle})` : `${tier} after a fork and by ${launcher}`;
  console.log(`\nAs ${user}. Walls tried: wasm: ${wasmWalls}; local and bash: ${localWalls}.`);
  if (!privateNetwork)
    console.log("No network namespace of our own: attacks on other addresses than loopback were left out.");
  const counted = results.filter(({ outcome }) => outcome !== "n/a");
  for (const kind of ["S5", "I4", "A2*", "A2", "H1"]) {
    const own = counted.filter((result) => result.class === kind);
    if (own.length === 0) continue;
    const passed = own.filter(({ outcome }) => outcome === "passed").length;
    console.log(
      `${kind.padEnd(4)} ${passed} of ${own.length} passed, weight ${passed * weights[kind]} of ${own.length * weights[kind]}`,
    );
  }
  const invalid = counted.filter(({ outcome }) => outcome === "invalid");
  const closed = counted.filter(({ class: kind, outcome }) => outcome !== "passed" && (kind === "S5" || kind === "I4"));
  // A bomb that affected others counts like an escape.
  const hurt = counted.filter((result) => result.outcome === "FAILED" && result.class === "A2*" && result.hurt);
  if (jailObstacle && process.env.CELLWRIGHT_REQUIRE === "all")
    closed.push({ id: `the tier ${tier}, which does not work here` });
  if (counted.length === 0) closed.push({ id: "the lack of any case that could be tried" });
  const isOpen = closed.length + invalid.length + hurt.length === 0;
  const reasons = [...new Set([...closed, ...hurt, ...invalid])]
    .map(({ id, kernel }) => [id, kernel].filter(Boolean).join(" "))
    .join(", ");
  console.log(
    `\nGate of ${tier} ${isOpen ? "open: all S and I passed, no case is invalid" : `CLOSED by ${reasons}`}. ${seconds.toFixed(0)} s.`,
  );
  return isOpen;
}

function printTable(head, rows) {
  const widths = head.map((title, column) => Math.max(title.length, ...rows.map((row) => [...row[column]].length)));
  for (const row of [head, ...rows]) {
    console.log(
      row
        .map((cell, column) => cell + " ".repeat(widths[column] - [...cell].length))
        .join("  ")
        .trimEnd(),
    );
  }
}
