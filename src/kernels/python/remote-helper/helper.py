"""Accesses files on a Jupyter server, from a stock kernel in which no session runs code.

Plain Python 3.9: it is sent as code (see remote/files/helper-source.ts) and gets one request at a time.
"""

import base64
import errno
import json
import traceback
import zlib

import helper_files
import helper_instances
import helper_mirror
from helper_walk import Refusal

OPERATIONS = {**helper_files.OPERATIONS, **helper_mirror.OPERATIONS, **helper_instances.OPERATIONS}

# Longer answers are compressed: long file lists compress well.
PACK_CHARS = 65_536


class Answer:
    """Front ends show the text itself, not its repr."""

    def __init__(self, text):
        self.text = text

    def _repr_mimebundle_(self, **_):
        return {"text/plain": self.text}

    def __repr__(self):
        return self.text


def answer(request):
    """`request` is JSON: an operation and its arguments. `again`: it is a retry, and may already have been done."""
    asked = json.loads(request)
    try:
        value = {"value": OPERATIONS[asked["operation"]](again=asked["again"], **asked["arguments"])}
    except Refusal as refusal:
        value = {"refusal": refusal.facts}
    except OSError as error:
        code = errno.errorcode.get(error.errno or 0, "EIO")
        value = {"refusal": {"kind": "system", "code": code, "said": error.strerror or ""}}
    except Exception:
        value = {"bug": traceback.format_exc()[-2_000:]}
    return Answer(encoded(value))


def encoded(value):
    text = json.dumps(value, separators=(",", ":"))
    result = value.get("value")
    # A file's bytes rarely compress well.
    if len(text) < PACK_CHARS or (isinstance(result, dict) and "bytes" in result):
        return text
    return json.dumps({"packed": base64.b64encode(zlib.compress(text.encode(), 1)).decode()})
