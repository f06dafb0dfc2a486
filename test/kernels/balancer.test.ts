import fc from "fast-check";
import { beforeEach, describe, expect, test } from "vitest";
import { Balancer } from "../../src/kernels/balancer.ts";

const ports = ["18901", "18902", "18903", "18904"];
const COOL_DOWN_MS = 30_000;
const HOUR_MS = 3_600_000;

let now = Date.parse("2026-01-01T00:00:00Z");
let balancer: Balancer;

beforeEach(() => {
  now = Date.parse("2026-01-01T00:00:00Z");
  balancer = new Balancer(ports, { coolDownMs: COOL_DOWN_MS, now: () => now });
});

/** A request from start to end. */
function request(sessionId: string, verdict: "succeeded" | "failed" = "succeeded", name = choose(sessionId)): string {
  const use = balancer.begin(sessionId, name);
  use[verdict]();
  use.ended();
  return name;
}

function choose(sessionId: string): string {
  const name = balancer.choose(sessionId);
  if (name === undefined) throw new Error("no sandbox is left");
  return name;
}

function fail(name: string, times = 3): void {
  for (let i = 0; i < times; i++) request(`probe of ${name}`, "failed", name);
  balancer.forget(`probe of ${name}`);
}

const statusOf = (name: string) => balancer.status().ports[name];

describe("choosing", () => {
  test("new sessions go round idle backends in the order of the list", () => {
    expect(["a", "b", "c", "d", "e"].map((id) => request(id))).toEqual([...ports, "18901"]);
  });

  test("new sessions go round while none of them has begun, too", () => {
    expect(["a", "b", "c", "d", "e"].map(choose)).toEqual([...ports, "18901"]);
  });

  test("a session stays where it is, even where it is busier than elsewhere", () => {
    request("mine");
    for (const id of ["x", "y", "z"]) balancer.begin(id, "18901");
    expect([request("mine"), request("mine")]).toEqual(["18901", "18901"]);
    expect(balancer.placeOf("mine")).toBe("18901");
  });

  test("new sessions go where fewest run", () => {
    for (const id of ["a", "b"]) balancer.begin(id, choose(id));
    expect([choose("c"), choose("d")]).toEqual(["18903", "18904"]);
  });

  test("requests of one session at once are one active session until both end", () => {
    const [one, two] = [balancer.begin("a", choose("a")), balancer.begin("a", choose("a"))];
    expect(statusOf("18901")).toMatchObject({ status: "busy", active_sessions: 1 });
    one?.ended();
    one?.ended();
    expect(statusOf("18901")).toMatchObject({ status: "busy", active_sessions: 1 });
    two?.ended();
    expect(statusOf("18901")).toMatchObject({ status: "idle", active_sessions: 0 });
  });

  test("what was tried in vain in this call is left out, and nothing is left when all were", () => {
    const tried = new Set<string>();
    for (const name of ports) {
      expect(balancer.choose("a", tried)).toBe(name);
      tried.add(name);
    }
    expect(balancer.choose("a", tried)).toBeUndefined();
  });

  test("a session is where it was placed", () => {
    balancer.place("a", "18903");
    expect(choose("a")).toBe("18903");
  });
});

describe("failures", () => {
  test("fail, fail, succeed, fail, fail does not put a backend out", () => {
    for (const verdict of ["failed", "failed", "succeeded", "failed", "failed"] as const) {
      request("a", verdict, "18901");
      expect(statusOf("18901")?.status).toBe("idle");
    }
    expect(statusOf("18901")?.error_count).toBe(2);
  });

  test("three failures in a row put it out: new sessions and its own go elsewhere", () => {
    request("mine", "succeeded", "18901");
    fail("18901");
    expect(statusOf("18901")).toMatchObject({ status: "error", error_count: 3 });
    expect(balancer.isOut("18901")).toBe(true);
    expect(["a", "b", "c", "d"].map((id) => request(id))).not.toContain("18901");
    expect(choose("mine")).not.toBe("18901");
    expect(balancer.placeOf("mine")).not.toBe("18901");
  });

  test("the late success of an old request does not bring it back", () => {
    const old = balancer.begin("old", "18901");
    fail("18901");
    old.succeeded();
    old.ended();
    expect(statusOf("18901")).toMatchObject({ status: "error", error_count: 3 });
  });

  test("the late failure of an old request does not put it out again", () => {
    const old = ["a", "b", "c"].map((id) => balancer.begin(id, "18901"));
    fail("18901");
    now += COOL_DOWN_MS;
    request("trial", "succeeded", "18901");
    for (const use of old) use.failed();
    expect(statusOf("18901")).toMatchObject({ error_count: 0 });
    expect(balancer.isOut("18901")).toBe(false);
  });

  test("only the first verdict of a request counts", () => {
    const use = balancer.begin("a", "18901");
    for (let i = 0; i < 5; i++) use.failed();
    use.succeeded();
    expect(statusOf("18901")?.error_count).toBe(1);
  });

  test("after the cool-down one request tries it, and others do so only when that has ended", () => {
    fail("18901");
    now += COOL_DOWN_MS - 1;
    expect(["a", "b", "c", "d"].map((id) => request(id))).not.toContain("18901");
    now += 1;
    const trial = balancer.begin("trial", choose("trial"));
    expect(balancer.placeOf("trial")).toBe("18901");
    now += COOL_DOWN_MS * 2;
    for (const name of ["18902", "18903", "18904"]) {
      for (const id of ["x", "y"]) balancer.begin(`${id} on ${name}`, name);
    }
    expect(["e", "f", "g", "h"].map((id) => request(id))).not.toContain("18901");
    trial.succeeded();
    trial.ended();
    expect(statusOf("18901")).toMatchObject({ status: "idle", error_count: 0 });
    expect(["i", "j", "k", "l"].map((id) => request(id))).toContain("18901");
  });

  test("a trial that fails puts it out for another cool-down", () => {
    fail("18901");
    for (const id of ["x", "y", "z"]) request(id);
    now += COOL_DOWN_MS;
    expect(request("trial", "failed")).toBe("18901");
    expect(statusOf("18901")?.status).toBe("error");
    now += COOL_DOWN_MS - 1;
    expect(["a", "b", "c", "d"].map((id) => request(id))).not.toContain("18901");
    now += 1;
    expect(["e", "f", "g", "h"].map((id) => request(id))).toContain("18901");
  });

  test("a trial that was chosen and never begun is not waited for for ever", () => {
    fail("18901");
    for (const id of ["x", "y", "z"]) request(id);
    now += COOL_DOWN_MS;
    expect(choose("came to nothing")).toBe("18901");
    expect(choose("b")).not.toBe("18901");
    now += COOL_DOWN_MS;
    expect(["c", "d", "e", "f"].map(choose)).toContain("18901");
  });

  test("when all are out, all are reset and the call is tried", () => {
    for (const name of ports) fail(name);
    expect(ports.map((name) => statusOf(name)?.status)).toEqual(["error", "error", "error", "error"]);
    expect(ports).toContain(choose("a"));
    for (const name of ports) expect(statusOf(name)).toMatchObject({ status: "idle", error_count: 0 });
  });

  test("a session whose own backend is out with all others stays there when all are reset", () => {
    request("mine", "succeeded", "18903");
    for (const name of ports) fail(name);
    expect(choose("mine")).toBe("18903");
  });

  test("a success from before a reset does not clear what failed after it", () => {
    const old = balancer.begin("old", "18901");
    for (const name of ports) fail(name);
    choose("a");
    fail("18901", 2);
    old.succeeded();
    expect(statusOf("18901")?.error_count).toBe(2);
  });

  test("a call that has only backends left that are out tries these", () => {
    for (const name of ["18902", "18903", "18904"]) fail(name);
    expect(balancer.choose("a", new Set(["18901"]))).toBeDefined();
  });
});

describe("draining", () => {
  test("a drained backend keeps its sessions and gets no new ones, until it is opened again", () => {
    request("mine", "succeeded", "18901");
    expect(balancer.drain("18901", true)).toBe(true);
    expect(statusOf("18901")?.status).toBe("draining");
    expect(choose("mine")).toBe("18901");
    expect(["a", "b", "c", "d"].map((id) => request(id))).not.toContain("18901");
    balancer.drain("18901", false);
    expect(["e", "f", "g", "h"].map((id) => request(id))).toContain("18901");
  });

  test("no session is sent to a drained backend because the others are out", () => {
    balancer.drain("18901", true);
    for (const name of ["18902", "18903", "18904"]) fail(name);
    expect(choose("a")).not.toBe("18901");
  });

  test("when all are drained, a new session gets none", () => {
    for (const name of ports) balancer.drain(name, true);
    expect(balancer.choose("a")).toBeUndefined();
  });

  test("an unknown backend cannot be drained", () => {
    expect(balancer.drain("1", true)).toBe(false);
  });
});

describe("status", () => {
  test("last_used is `never`, then the time of the last request", () => {
    expect(statusOf("18901")).toEqual({ status: "idle", active_sessions: 0, error_count: 0, last_used: "never" });
    const use = balancer.begin("a", choose("a"));
    expect(statusOf("18901")).toMatchObject({ status: "busy", last_used: "2026-01-01T00:00:00.000Z" });
    use.ended();
    expect(statusOf("18901")?.status).toBe("idle");
  });

  test("sessions are forgotten after an hour without a request, but not while one runs", () => {
    for (const id of ["a", "b"]) request(id);
    const long = balancer.begin("c", choose("c"));
    expect(balancer.status().total_sessions).toBe(3);
    now += HOUR_MS - 1;
    request("b");
    now += 1;
    expect(balancer.status().total_sessions).toBe(2);
    now += HOUR_MS;
    expect(balancer.status().total_sessions).toBe(1);
    long.ended();
    expect(balancer.placeOf("c")).toBe("18903");
    now += HOUR_MS;
    expect(balancer.status().total_sessions).toBe(0);
  });

  test("a session that is forgotten comes back as a new one", () => {
    request("a");
    balancer.forget("a");
    expect(balancer.placeOf("a")).toBeUndefined();
    expect(choose("a")).toBe("18902");
  });
});

test("whatever happens, a call finds a backend, counts stay right, and no new session goes to one that is out", () => {
  const step = fc.record({
    session: fc.integer({ min: 0, max: 5 }),
    verdict: fc.constantFrom("succeeded", "failed", "none"),
    endsAfter: fc.integer({ min: 0, max: 4 }),
    passesMs: fc.constantFrom(0, 1, COOL_DOWN_MS / 2, COOL_DOWN_MS),
  });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
      const subject = new Balancer(ports, { coolDownMs: COOL_DOWN_MS, now: () => now });
      const open: { session: string; name: string; endsAt: number; end: () => void }[] = [];
      steps.forEach(({ session, verdict, endsAfter, passesMs }, index) => {
        now += passesMs;
        const wasOut = new Set(ports.filter((name) => subject.isOut(name)));
        const name = subject.choose(`s${session}`);
        expect(name).toBeDefined();
        if (!name) return;
        const use = subject.begin(`s${session}`, name);
        const isTrial = subject.isOut(name);
        // All may have been out and reset; otherwise only a trial goes to one that was out.
        if (wasOut.size < ports.length && wasOut.has(name)) expect(isTrial).toBe(true);
        const end = () => {
          if (verdict !== "none") use[verdict]();
          use.ended();
        };
        open.push({ session: `s${session}`, name, endsAt: index + endsAfter, end });
        for (const one of open.filter(({ endsAt }) => endsAt <= index)) {
          one.end();
          open.splice(open.indexOf(one), 1);
        }
        for (const port of ports) {
          const running = new Set(open.filter((one) => one.name === port).map((one) => one.session));
          expect(subject.status().ports[port]?.active_sessions).toBe(running.size);
        }
      });
    }),
  );
});
