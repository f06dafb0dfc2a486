// Loaded into a program by --import: its clock is as many milliseconds ahead as the file says.
import { readFileSync } from "node:fs";

const real = Date.now;
Date.now = () => real() + Number(readFileSync(process.env.TEST_CLOCK_FILE, "utf8"));
