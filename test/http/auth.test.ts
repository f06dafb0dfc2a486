import type { IncomingMessage } from "node:http";
import { describe, expect, test } from "vitest";
import { checkExposure, createAuthenticate } from "../../src/http/auth.ts";
import { createHostCheck, isLoopback } from "../../src/http/hosts.ts";
import { createTokenRateLimit } from "../../src/http/token-rate-limit.ts";

const request = (headers: Record<string, string>, url = "/mcp") => ({ headers, url }) as unknown as IncomingMessage;

describe("tokens", () => {
  const authenticate = createAuthenticate(["ann=a-token", "b-token", "cat=with=equals"]);

  test.each([
    ["Bearer a-token", "ann"],
    ["bearer b-token", "local"],
    ["Bearer with=equals", "cat"],
    ["Bearer  a-token", "ann"],
  ])("%s is %s", (authorization, owner) => {
    expect(authenticate(request({ authorization }))).toEqual({ owner });
  });

  test.each(["Bearer nope", "Bearer", "Bearer ann=a-token", "a-token", "Basic a-token", "Bearer a-token x", ""])(
    "%s is refused",
    (authorization) => {
      expect(authenticate(request({ authorization }))).toBeUndefined();
    },
  );

  test("are not taken from the address", () => {
    expect(authenticate(request({}, "/mcp?access_token=a-token&token=b-token"))).toBeUndefined();
  });

  test("are not needed where none are set", () => {
    expect(createAuthenticate([])(request({}))).toEqual({ owner: "local" });
  });
});

describe("wrong tokens", () => {
  const long = "x".repeat(32);
  const world = () => {
    let nowMs = 0;
    const authenticate = createAuthenticate(
      ["ann=a-short-token-1", `bob=${long}`],
      createTokenRateLimit(() => nowMs),
    );
    const ask = (token: string, remoteAddress = "192.0.2.1") =>
      authenticate({ headers: { authorization: `Bearer ${token}` }, socket: { remoteAddress } } as never);
    const pass = (ms: number) => {
      nowMs += ms;
    };
    return { ask, pass };
  };

  test("are refused unread after ten of them from one address, for a minute", () => {
    const { ask, pass } = world();
    for (let turn = 0; turn < 10; turn += 1) expect(ask(`guess ${turn}`.replace(" ", ""))).toBeUndefined();
    expect(() => ask("guess11")).toThrow("Too many wrong tokens from this address. Try again in 60 s.");
    expect(() => ask("a-short-token-1")).toThrow(
      expect.objectContaining({ status: 429, headers: { "retry-after": "60" } }),
    );
    pass(59_000);
    expect(() => ask("a-short-token-1")).toThrow("in 1 s");
    pass(1_000);
    expect(ask("a-short-token-1")).toEqual({ owner: "ann" });
  });

  test("do not lock out other addresses, nor a token that is too long to be guessed", () => {
    const { ask } = world();
    for (let turn = 0; turn < 10; turn += 1) ask("wrong");
    expect(ask("a-short-token-1", "192.0.2.2")).toEqual({ owner: "ann" });
    expect(ask(long)).toEqual({ owner: "bob" });
  });

  test("are counted for a whole network of IPv6, and for an address however it is written", () => {
    const { ask } = world();
    for (let turn = 0; turn < 10; turn += 1) ask("wrong", `2001:db8::${turn}`);
    expect(() => ask("wrong", "2001:db8:0:0:1:2:3:4")).toThrow("Too many");
    expect(ask("a-short-token-1", "2001:db8:0:1::1")).toEqual({ owner: "ann" });
    for (let turn = 0; turn < 10; turn += 1) ask("wrong", turn % 2 ? "192.0.2.7" : "::ffff:192.0.2.7");
    expect(() => ask("wrong", "192.0.2.7")).toThrow("Too many");
  });

  test("are not those of requests without any", () => {
    const { ask } = world();
    const authenticate = createAuthenticate(["ann=a-short-token-1"]);
    for (let turn = 0; turn < 20; turn += 1) expect(authenticate(request({}))).toBeUndefined();
    expect(ask("a-short-token-1")).toEqual({ owner: "ann" });
  });
});

describe("a server is refused", () => {
  test.each([
    [{ host: "0.0.0.0", authToken: [], insecure: false, jail: "auto" as const }, "--auth-token"],
    [{ host: "192.168.0.7", authToken: [], insecure: false, jail: "auto" as const }, "--insecure"],
    [{ host: "::", authToken: [], insecure: false, jail: "auto" as const }, "--auth-token"],
    [{ host: "localhost.evil.example", authToken: [], insecure: false, jail: "auto" as const }, "--auth-token"],
    [{ host: "127.0.0.1", authToken: ["ann="], insecure: false, jail: "auto" as const }, "no token"],
    [{ host: "127.0.0.1", authToken: ["c2VjcmV0=="], insecure: false, jail: "auto" as const }, "no token"],
    [{ host: "127.0.0.1", authToken: ["=x"], insecure: false, jail: "auto" as const }, "empty NAME"],
    [{ host: "127.0.0.1", authToken: ["ann=x", "bob=x"], insecure: false, jail: "auto" as const }, "same TOKEN"],
    [
      { host: "127.0.0.1", authToken: ["ann=fifteen-letters"], insecure: false, jail: "auto" as const },
      "16 characters",
    ],
    [
      { host: "127.0.0.1", authToken: [], insecure: true, jail: "auto" as const, allowNet: ["host"] },
      "--allow-net=host",
    ],
  ])("with %o", (options, sentence) => {
    expect(checkExposure(options)).toContain(sentence);
  });

  test("without a jail, with a token too", () => {
    const options = { host: "0.0.0.0", authToken: ["a-token-of-some-length"], insecure: false, jail: "none" as const };
    expect(checkExposure(options)).toContain("--jail none");
  });

  test("without showing a token", () => {
    expect(
      checkExposure({ host: "0.0.0.0", authToken: ["ann=hush", "bob=hush"], insecure: false, jail: "auto" as const }),
    ).not.toContain("hush");
  });

  test.each([
    { host: "127.0.0.1", authToken: [], insecure: false, jail: "auto" as const },
    { host: "localhost", authToken: [], insecure: false, jail: "auto" as const },
    { host: "::1", authToken: [], insecure: false, jail: "auto" as const },
    { host: "0.0.0.0", authToken: ["a-token-of-some-length"], insecure: false, jail: "auto" as const },
    { host: "0.0.0.0", authToken: [], insecure: true, jail: "auto" as const },
    { host: "127.0.0.1", authToken: [], insecure: false, jail: "none" as const },
    { host: "127.0.0.1", authToken: [], insecure: false, jail: "auto" as const, allowNet: ["host"] },
    { host: "127.0.0.1", authToken: [], insecure: true, jail: "auto" as const, allowNet: ["*"] },
    { host: "127.0.0.1", authToken: ["ann=sixteen--letters"], insecure: false, jail: "auto" as const },
    { host: "0.0.0.0", authToken: ["a-token-of-some-length"], insecure: true, jail: "none" as const },
  ])("but not with %o", (options) => {
    expect(checkExposure(options)).toBeUndefined();
  });
});

describe("names", () => {
  const check = createHostCheck({ host: "192.168.0.7", allowedHosts: ["Cells.example", "other.example:443"] });

  test.each([
    "localhost",
    "localhost:8000",
    "127.0.0.1:1",
    "[::1]:8000",
    "192.168.0.7:8000",
    "cells.example",
    "CELLS.example:80",
    "other.example",
  ])("Host %s is ours", (host) => {
    expect(check(request({ host }))).toBeUndefined();
  });

  test.each([
    "evil.example",
    "localhost.evil.example",
    "127.0.0.1.evil.example",
    "evil.example:8000",
    "evil@localhost",
    "localhost/x",
    "",
    "[::1",
  ])("Host %s is not", (host) => {
    expect(check(request({ host }))).toContain("not allowed");
  });

  test("no Host at all is not", () => {
    expect(check(request({}))).toContain("not allowed");
  });

  test.each(["http://localhost:3000", "https://cells.example"])("Origin %s is ours", (origin) => {
    expect(check(request({ host: "localhost", origin }))).toBeUndefined();
  });

  test.each(["https://evil.example", "null", "http://localhost.evil.example", "file://", "x"])(
    "Origin %s is not",
    (origin) => {
      expect(check(request({ host: "localhost", origin }))).toContain("not allowed");
    },
  );

  test("listening on all addresses does not allow every Host", () => {
    const everywhere = createHostCheck({ host: "0.0.0.0", allowedHosts: [] });
    expect(everywhere(request({ host: "0.0.0.0:8000" }))).toContain("not allowed");
  });

  test("only this machine's own addresses are loopback", () => {
    expect(["127.0.0.1", "127.1.2.3", "localhost", "::1"].map(isLoopback)).toEqual([true, true, true, true]);
    expect(["0.0.0.0", "::", "10.0.0.1", "127.evil.example", "example.com"].map(isLoopback)).toEqual(
      Array(5).fill(false),
    );
  });
});
