// Group A for local kernels and bash, third part: the network, sockets of the host, and the list of allowed hosts.
import { once } from "node:events";
import { createServer } from "node:http";
import { expect, portOf, proves, short } from "./case.mjs";
import { breakOut } from "./local-break-out.mjs";
import { forBoth, inPython, LIMITS, sessionIn, startLocal, tryAll } from "./local-stage.mjs";
import { JAILED } from "./tier.mjs";

const q = JSON.stringify;
const needsNetwork = (stage) =>
  stage.privateNetwork
    ? undefined
    : "needs a network namespace of its own (unshare --net), so that nothing leaves the machine";

const a5 = breakOut({
  id: "A5",
  what: "loopback of the host: TCP, UDP, HTTP, the shell's /dev/tcp",
  ways: ({ canary: { port, udpPort } }) => ({
    TCP: `out = ask(("127.0.0.1", ${port}))`,
    localhost: `out = ask(("localhost", ${port}))`,
    UDP: `out = GOT if ask(("127.0.0.1", ${udpPort}), kind=socket.SOCK_DGRAM) else ""`,
    urllib: `import urllib.request\nout = urllib.request.urlopen("http://127.0.0.1:${port}/", timeout=2).read()`,
    "/dev/tcp": `out = sh("exec 3<>/dev/tcp/127.0.0.1/${port}; echo >&3; cat <&3")`,
    "a child's socket": `out = in_child(lambda: ask(("127.0.0.1", ${port})))`,
  }),
  hopes: ({ canary: { port } }) => ({
    "0.0.0.0": `out = ask(("0.0.0.0", ${port}))`,
    "every address of the loopback": `for last in range(1, 5):\n    try: out += ask(("127.0.0.%d" % last, ${port}))\n    except OSError: pass`,
    IPv6: `out = ask(("::1", ${port}), socket.AF_INET6)`,
    "IPv4 in IPv6": `out = ask(("::ffff:127.0.0.1", ${port}), socket.AF_INET6)`,
    "the usual services": `for number_ in (22, 53, 80, 443, 631, 2375, 3128, 5432, 6379, 8000, 8888, 9000):\n    try: out += GOT + ask(("127.0.0.1", number_))\n    except OSError: pass`,
    "other interfaces": 'out = GOT if {name for _, name in socket.if_nameindex()} - {"lo"} else ""',
    "a proxy from the environment": 'out = GOT if any("proxy" in name.lower() for name in os.environ) else ""',
  }),
});

const a10 = breakOut({
  id: "A10",
  what: "Unix sockets of the host: by path, abstract, of daemons",
  ways: ({ canary: { socketPath, abstractName } }) => ({
    "by path": `out = ask(${q(socketPath)}, socket.AF_UNIX)`,
    // Older versions of Node fill the whole address.
    abstract: `name = b"\\0" + ${q(abstractName)}.encode()\nfor address in (name, name.ljust(108, b"\\0")):\n    try: out += ask(address, socket.AF_UNIX)\n    except OSError: pass`,
    "listed in /proc/net/unix": `out = GOT if ${q(abstractName)} in read("/proc/net/unix", 10_000_000) else ""`,
  }),
  hopes: ({ canary: { socketPath } }) => ({
    ...Object.fromEntries(
      [
        "/var/run/docker.sock",
        "/run/docker.sock",
        "/run/podman/podman.sock",
        "/run/containerd/containerd.sock",
        "/run/systemd/private",
        "/run/dbus/system_bus_socket",
        "/run/systemd/notify",
        "/dev/log",
        "/tmp/.X11-unix/X0",
      ].map((path) => [path, `out = GOT + ask(${q(path)}, socket.AF_UNIX)`]),
    ),
    "by a link in the workspace": `os.path.lexists("to-socket") or os.symlink(${q(socketPath)}, "to-socket")\nout = ask("to-socket", socket.AF_UNIX)`,
    "any abstract one": `for line in read("/proc/net/unix", 10_000_000).splitlines():\n    name = line.split()[-1]\n    if name.startswith("@"): out += GOT + name`,
  }),
  openOnLandlock: {
    "listed in /proc/net/unix": "names of the machine's sockets and connections can be seen in /proc/self/net",
    "any abstract one": "names of the machine's sockets and connections can be seen in /proc/self/net",
  },
});

const a12 = breakOut({
  id: "A12",
  what: "DNS: by name, by the resolver's address, by hand, through HTTP",
  needs: needsNetwork,
  ways: ({ canary: { dnsPort, port } }) => ({
    "by hand": `out = GOT if ask(("127.0.0.1", ${dnsPort}), kind=socket.SOCK_DGRAM, text=b"x" * 20) else ""`,
    "over HTTP": `out = ask(("127.0.0.1", ${port}), text=b"GET /dns-query?name=a.example HTTP/1.0\\r\\n\\r\\n")`,
    "the resolver of the machine": `address = next((line.split()[1] for line in read("/etc/resolv.conf").splitlines() if line.startswith("nameserver")), "127.0.0.1")\nout = GOT if ask((address, 53), socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM, b"x" * 20) else ""`,
  }),
  hopes: () => ({
    getaddrinfo: 'out = GOT + str(socket.getaddrinfo("a8.example", 80))',
    getent: 'out = GOT if sh("getent hosts a9.example") else ""',
    "a resolver on the internet":
      'for address in ("1.1.1.1", "8.8.8.8", "9.9.9.9"):\n    try: out += GOT if ask((address, 53), kind=socket.SOCK_DGRAM, text=b"x" * 20) else ""\n    except OSError: pass',
    "a packet to anywhere":
      'sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\nout = GOT if sender.sendto(b"x", ("192.0.2.1", 53)) else ""',
  }),
});

const addresses = ["169.254.169.254", "10.0.0.1", "192.168.0.1", "fd00:ec2::254"];
const a13 = breakOut({
  id: "A13",
  what: "metadata service, IPv6, private networks",
  needs: needsNetwork,
  ways: ({ canary: { port } }) =>
    Object.fromEntries(
      addresses.map((address) => [
        address,
        `out = ask((${q(address)}, ${port}), ${address.includes(":") ? "socket.AF_INET6" : "socket.AF_INET"})`,
      ]),
    ),
  hopes: ({ canary: { port } }) => ({
    "link-local": `out = ask(("fe80::1", ${port}, 0, socket.if_nametoindex("lo")), socket.AF_INET6)`,
    broadcast: `sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\nsender.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)\nout = GOT if sender.sendto(b"x", ("255.255.255.255", ${port})) else ""`,
    multicast:
      'sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\nout = GOT if sender.sendto(b"x", ("224.0.0.1", 5353)) else ""',
    "a route of its own": 'out = GOT if "default" in sh("ip route add default dev lo; ip route") else ""',
  }),
});

/** A raw request through the proxy: `target` is the URL of the request line. */
const viaProxy = (target, { host = "10.0.0.1", method = "GET" } = {}) =>
  `out = ask(("127.0.0.1", 3128), text=(${q(`${method} ${target} HTTP/1.1\r\nhost: ${host}\r\nconnection: close\r\n\r\n`)}).encode())`;

const a14 = forBoth((language) => ({
  id: "A14",
  class: "S5",
  what: "allowed hosts: another host, redirect, names and forms of addresses, straight out",
  needs: needsNetwork,
  async probe(stage) {
    const { server, site } = await withAllowedSite(stage);
    const session = await sessionIn(stage, server, language);
    const { port } = site;
    const other = "192.168.0.1";
    const { told } = await tryAll(session, {
      twin: viaProxy(`http://10.0.0.1:${port}/`),
      "twin, by CONNECT": `connection = socket.create_connection(("127.0.0.1", 3128), 2)\nconnection.sendall(b"CONNECT 10.0.0.1:${port} HTTP/1.1\\r\\n\\r\\n")\nconnection.recv(4096)\nconnection.sendall(b"GET / HTTP/1.0\\r\\n\\r\\n")\nout = connection.recv(4096).decode()`,
    });
    for (const [name, text] of Object.entries(told)) proves(text.includes("allowed-site"), `${name}: ${short(text)}`);
    site.flag = stage.flag;
    const tries = {
      "another host": viaProxy(`http://${other}:${port}/`),
      "another host by CONNECT": viaProxy(`${other}:${port}`, { method: "CONNECT" }),
      "another port": viaProxy(`http://10.0.0.1:${stage.canary.port}/`),
      "another port by CONNECT": viaProxy(`10.0.0.1:${stage.canary.port}`, { method: "CONNECT" }),
      "host header": viaProxy(`http://${other}:${port}/`, { host: `10.0.0.1:${port}` }),
      "user and host": viaProxy(`http://10.0.0.1:${port}@${other}:${port}/`),
      "decimal address": viaProxy(`http://3232235521:${port}/`),
      "octal address": viaProxy(`http://0300.0250.0.1:${port}/`),
      "IPv4 in IPv6": viaProxy(`http://[::ffff:192.168.0.1]:${port}/`),
      metadata: viaProxy("http://169.254.169.254/latest/meta-data/"),
      loopback: viaProxy(`http://127.0.0.1:${port}/`),
      "a name of loopback": viaProxy(`http://localhost:${port}/`),
      "a name to be looked up": viaProxy(`http://10.0.0.1.flag.example:${port}/`),
      "a redirect, followed": `import urllib.request\nout = urllib.request.urlopen("http://10.0.0.1:${port}/redirect", timeout=3).read()`,
      "straight out": `out = ask(("10.0.0.1", ${port}))`,
      "straight to another": `out = ask((${q(other)}, ${port}))`,
      "a second request on the same connection": `connection = socket.create_connection(("127.0.0.1", 3128), 2)\nconnection.sendall(b"GET http://10.0.0.1:${port}/allowed HTTP/1.1\\r\\nhost: x\\r\\n\\r\\n")\nconnection.recv(4096)\nconnection.sendall(b"GET http://${other}:${port}/ HTTP/1.1\\r\\nhost: x\\r\\nconnection: close\\r\\n\\r\\n")\nout = connection.recv(4096).decode()`,
      "a request within a request": `connection = socket.create_connection(("127.0.0.1", 3128), 2)\nconnection.sendall(b"POST http://10.0.0.1:${port}/allowed HTTP/1.1\\r\\nhost: x\\r\\ncontent-length: 0\\r\\ntransfer-encoding: chunked\\r\\n\\r\\n0\\r\\n\\r\\nGET http://${other}:${port}/ HTTP/1.1\\r\\nhost: x\\r\\n\\r\\n")\nout = connection.recv(65536).decode()\nout += connection.recv(65536).decode()`,
      "the proxy's socket": 'out = GOT if set(os.listdir("/run/proxy")) - {"socket"} else ""',
      "another socket for the proxy": 'os.rename("/run/proxy/socket", "/run/proxy/moved")\nout = GOT',
    };
    const { told: got, isComplete } = await tryAll(session, tries);
    expect(isComplete, "the tries ended early");
    for (const [name, text] of Object.entries(got))
      expect(!text.includes(stage.flag) && !text.includes("GOT-THROUGH"), `${name}: ${short(text, 200)}`);
    return `${Object.keys(tries).length} tries refused`;
  },
  async control(stage) {
    const { site } = await listen(stage);
    site.flag = stage.flag;
    const session = await sessionIn(stage, await stage.server("none"), language);
    const { text } = await session.run(inPython(language, `print(ask(("192.168.0.1", ${site.port})))`));
    proves(text.includes(stage.flag), short(text));
    return "without walls the other host answers";
  },
}));

/** Listens at all addresses; only at 10.0.0.1 is it the allowed site, which redirects elsewhere. */
async function listen(stage) {
  const site = { flag: "allowed-site", port: 0 };
  const http = createServer((request, response) => {
    if (request.url === "/redirect") response.writeHead(302, { location: `http://192.168.0.1:${site.port}/` });
    response.end(request.url === "/allowed" ? "allowed" : site.flag);
  });
  http.listen(0, "::");
  await once(http, "listening");
  stage.after(() => void http.close());
  site.port = portOf(http);
  return { site };
}

async function withAllowedSite(stage) {
  const { site } = await listen(stage);
  const args = [...JAILED, ...LIMITS, `--allow-net=10.0.0.1:${site.port}`];
  return { site, server: await stage.ownServer((env) => startLocal({ args, env })) };
}

export default [...a5, ...a10, ...a12, ...a13, ...a14];
