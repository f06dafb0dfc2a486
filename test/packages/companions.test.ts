import { expect, test } from "vitest";
import { withCompanions } from "../../src/packages/companions.ts";

test.each([
  [["sympy"], ["sympy"]],
  [["rich>=13"], ["rich>=13", "pygments"]],
  [
    ["logfire", "pygments"],
    ["logfire", "pygments"],
  ],
  [["pydantic_ai_slim"], ["pydantic_ai_slim", "typing_extensions>=4.12"]],
  [[], []],
])("%j needs %j", (given, expected) => {
  expect(withCompanions(given)).toEqual(expected);
});
