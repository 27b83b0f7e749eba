#!/usr/bin/env python3
"""Pickles of nasty values, protocols 0 to 5, as tool_repickle writes them again: Python must load an equal value, and torch's
weights_only unpickler take or refuse it as tool_repickle -w says."""
import io, os, pickle, pickletools, subprocess, sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import pickle_values

try:
    import torch._weights_only_unpickler as weights_only
except ImportError:
    weights_only = None

TOOL = os.environ.get("SF_REPICKLE") or os.path.join(os.path.dirname(os.environ.get("SHARDFUSE", "./shardfuse")),
                                                     "tests/tool_repickle")
# opcodes torch's weights_only unpickler knows; POP and POP_MARK only where a tuple holds itself, LONG4 past 255 bytes
TORCH = set("GLOBAL NEWOBJ REDUCE BUILD APPEND APPENDS SETITEM SETITEMS MARK TUPLE TUPLE1 TUPLE2 TUPLE3 NONE NEWFALSE NEWTRUE "
            "EMPTY_TUPLE EMPTY_LIST EMPTY_DICT BININT BININT1 BININT2 BINFLOAT BINUNICODE LONG1 BINPERSID BINGET LONG_BINGET "
            "BINPUT LONG_BINPUT PROTO STOP".split())
EXTRA = {"self_tuple": {"POP"}, "self_tuple5": {"POP_MARK", "POP"}, "set_cycle": {"POP"}, "frozenset_cycle": {"POP"},
         "object_cycle": {"POP"}, "int21": {"LONG4"}}


def repickle(data, *args):
    p = subprocess.run([TOOL, *args], input=data, capture_output=True)
    return p.returncode, p.stdout, p.stderr.decode()


def torch_takes(data):
    try:
        weights_only.load(io.BytesIO(data), encoding="utf-8")
        return True
    except Exception:
        return False


def main():
    if not os.access(TOOL, os.X_OK):
        print(f"SKIP: {TOOL} is not built\n0 passed, 0 failed, 1 skipped")
        return 77
    passed, failed = 0, []
    for name, value in pickle_values.values().items():
        for proto in range(6):
            try:
                data = pickle.dumps(value, proto)
            except Exception:  # protocols 0 and 1 cannot say everything
                continue
            rc, out, err = repickle(data)
            what = f"{name} protocol {proto}"
            if rc:
                failed.append(f"{what}: {err.strip()}")
                continue
            ops = {op.name for op, _, _ in pickletools.genops(out)}
            try:
                back = pickle.loads(out)
                ok = pickle_values.same(pickle.loads(data), back)
            except Exception as e:
                ok, back = False, repr(e)
            if not ok:
                failed.append(f"{what}: loads as {str(back)[:200]}")
            elif ops - TORCH - EXTRA.get(name, set()):
                failed.append(f"{what}: opcodes {ops - TORCH}")
            else:
                passed += 1
            if weights_only:
                refused = repickle(data, "-w")[1].decode().strip()
                if torch_takes(out) == (not refused):
                    passed += 1
                else:
                    failed.append(f"{what}: tool says '{refused}', torch {'takes' if refused else 'refuses'} it")
    print("\n".join(failed))
    print(f"{passed} passed, {len(failed)} failed, 0 skipped")
    return bool(failed)


sys.exit(main())
