"""Run in place of an installer: what can it reach? The answer is returned as the version of a package."""

import http.client
import json
import os
import socket
import sys

other_port, request = int(sys.argv[1]), json.loads(sys.argv[2])
index_url = request["indexUrls"][0]
port = int(index_url.split("/")[2].split(":")[1])


def status(method, target):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request(method, target)
    return connection.getresponse().status


def direct():
    try:
        socket.create_connection(("127.0.0.1", other_port), timeout=5).close()
        return "connected"
    except OSError:
        return "refused"


def writable(folder):
    try:
        with open(os.path.join(folder, "probe"), "w"):
            return True
    except OSError:
        return False


path = "/" + index_url.split("/", 3)[3]
places = ["/", "/tmp", "/usr", "/workspace", "/run/packages", os.path.dirname(os.path.abspath(__file__)), sys.prefix]
told = {
    "index": status("GET", path + "alpha/"),
    "direct": direct(),
    "proxied": status("GET", f"http://127.0.0.1:{other_port}/alpha-1.0-py3-none-any.whl"),
    "tunnelled": status("CONNECT", f"127.0.0.1:{other_port}"),
    "unnamed": status("GET", path.rsplit("/index/", 1)[0] + "/file/999/x.whl"),
    "written": [folder for folder in places if writable(folder)],
}
print(
    "cellwright-result "
    + json.dumps({"packages": [{"name": "probe", "version": json.dumps(told), "modules": []}], "replaced": []})
)
