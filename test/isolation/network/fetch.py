"""What reaches the network from inside a jail with a proxy: python fetch.py PORT-OF-THE-TEST'S-SERVER"""

import concurrent.futures
import ctypes
import json
import os
import socket
import sys
import urllib.error
import urllib.request

port = int(sys.argv[1])
found = {}


def get(url):
    return urllib.request.urlopen(url, timeout=20).read()


def refused(attempt):
    try:
        attempt()
    except OSError:
        return "refused"
    return "reached"


found["allowed"] = get("http://named.example:%d/" % port).decode()
with concurrent.futures.ThreadPoolExecutor(8) as pool:
    found["many"] = len(list(pool.map(get, ["http://named.example:%d/" % port] * 20)))
found["large"] = len(get("http://named.example:%d/large" % port))
try:
    get("http://other.example/")
except urllib.error.HTTPError as error:
    found["other"] = error.code
found["direct"] = refused(lambda: socket.create_connection(("127.0.0.1", port), 2))
found["lookup"] = refused(lambda: socket.getaddrinfo("named.example", 80))
found["replace"] = refused(lambda: os.remove("/run/proxy/socket"))


def listens(waiting):
    with waiting, socket.socket(waiting.family) as client:
        waiting.listen(1)
        client.connect(waiting.getsockname())
        waiting.accept()[0].close()
    return "reached"


found["port"] = refused(lambda: listens(socket.socket()))
own = socket.socket(socket.AF_UNIX)
own.bind("own.sock")
found["own"] = listens(own)
os.unlink("own.sock")
with open(os.devnull) as file:
    found["no socket"] = ctypes.CDLL(None).listen(file.fileno(), 1)
print(json.dumps(found))
