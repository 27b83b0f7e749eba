#!/usr/bin/env python3
"""Take one tensor out of a one-file DCP checkpoint, to make it small: cut_key.py CASE KEY.

Nothing of torch is imported: the metadata is read into stand-in classes and written back under the names and with the
protocol it had, so it stays what that PyTorch and that Python wrote, less the key.
"""
import copyreg
import json
import os
import pickle
import sys
import types

CALLED = {"Size", "_get_layout", "_MEM_FORMAT_ENCODING", "PosixPath"}  # come from REDUCE, the rest from NEWOBJ


def stand_in(module, name):
    parent = ""
    for part in module.split("."):
        parent = f"{parent}.{part}" if parent else part
        if not isinstance(sys.modules.get(parent), types.ModuleType) or (parent == module and not hasattr(sys.modules[parent], name)):
            sys.modules.setdefault(parent, types.ModuleType(parent))
    mod = sys.modules[module]
    cls = getattr(mod, name, None)
    if not isinstance(cls, type) or not hasattr(cls, "_stand_in"):
        def new(c, *args):
            o = object.__new__(c)
            o.__dict__["_args"] = args
            return o

        def reduce(self):
            state = {k: v for k, v in self.__dict__.items() if k not in ("_args", "_state")} or None
            state = self.__dict__.get("_state", state)
            if name in CALLED:
                return (cls, self._args)
            return (copyreg.__newobj__, (cls, *self._args), state) if state is not None else (copyreg.__newobj__, (cls, *self._args))

        def setstate(self, s):
            self.__dict__["_state"] = s

        cls = type(name, (), {"__module__": module, "__new__": new, "__reduce__": reduce, "__setstate__": setstate, "_stand_in": True})
        setattr(mod, name, cls)
    return cls


class Reader(pickle.Unpickler):
    find_class = staticmethod(stand_in)


def main(case, key):
    ckpt = os.path.join(case, "ckpt")
    with open(os.path.join(ckpt, ".metadata"), "rb") as f:
        data = f.read()
    reader = Reader(__import__("io").BytesIO(data))
    md = reader.load()
    again = pickle.dumps(md, protocol=data[1])
    print("unchanged metadata comes out", "the same" if again == data else f"different ({len(data)} and {len(again)} bytes)")
    d = md._state
    hit = [(i, s) for i, s in d["storage_data"].items() if i._state["fqn"] == key]
    (index, info), = hit
    name, off, n = (info._state[k] for k in ("relative_path", "offset", "length"))
    del d["storage_data"][index], d["state_dict_metadata"][key], d["planner_data"][key]
    for s in d["storage_data"].values():
        if s._state["relative_path"] == name and s._state["offset"] > off:
            s._state["offset"] -= n
    with open(os.path.join(ckpt, name), "rb") as f:
        body = f.read()
    with open(os.path.join(ckpt, name), "wb") as f:
        f.write(body[:off] + body[off + n:])
    with open(os.path.join(ckpt, ".metadata"), "wb") as f:
        pickle.dump(md, f, protocol=data[1])
    path = os.path.join(case, "expect.json")
    with open(path) as f:
        exp = json.load(f)
    del exp["tensors"][key]
    exp["note"] = (exp.get("note", "") + f" (tensor {key!r} cut out to make it small)").strip()
    with open(path, "w") as f:
        json.dump(exp, f, indent=0, sort_keys=True)
        f.write("\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
