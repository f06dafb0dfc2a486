"""Looks after files on a Jupyter server, in a stock kernel of its own that no session runs code in.

Plain Python 3.9: it is sent as code (see remote/helper.ts), and asked one question at a time.
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

# Longer answers are packed: lists of thousands of files are mostly the same letters.
PACK_CHARS = 65_536


class Answer:
    """What a Jupyter front end is shown of it is the text itself, not a quotation of it."""

    def __init__(self, text):
        self.text = text

    def _repr_mimebundle_(self, **_):
        return {"text/plain": self.text}

    def __repr__(self):
        return self.text


def answer(request):
    """`request` is JSON: an operation and its arguments. `again`: it was asked before, and may have been done."""
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
    # A file's bytes are as good as random.
    if len(text) < PACK_CHARS or (isinstance(result, dict) and "bytes" in result):
        return text
    return json.dumps({"packed": base64.b64encode(zlib.compress(text.encode(), 1)).decode()})
