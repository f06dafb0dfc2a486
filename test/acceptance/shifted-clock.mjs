// Preloaded with --import: shifts the program's clock ahead by the number of milliseconds in a file.
import { readFileSync } from "node:fs";

const real = Date.now;
Date.now = () => real() + Number(readFileSync(process.env.TEST_CLOCK_FILE, "utf8"));
