// The part of audit-env.mjs that begins in WASM sessions.
import { s1Wasm } from "./audit-env.mjs";

export default [s1Wasm];
