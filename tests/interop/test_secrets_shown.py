#!/usr/bin/env python3
"""A URL with a password, however it was typed and wherever it stands: no message has the password in it."""
from common import *

need_program()
FORMS = ("http://u:SECRET@127.0.0.1:1/x", "http:/u:SECRET@127.0.0.1:1/x", "http:u:SECRET@h/x", "https//u:SECRET@h/x", "s3:/id:SECRET@b/k", "u:SECRET@h/x",
         "htp://u:SECRET@h/x", "http://u:SEC/RET@h/x")
CKPT, EXP = case("dcp/fsdp4")

for url in FORMS:
    with tempfile.TemporaryDirectory() as t:
        for args in (("info", url), ("ls", url), ("cat", url, "k"), ("verify", url), ("doctor", url), ("warm", url), ("drop", url), ("export", "--format", "npy", url, f"{t}/out"),
                     ("export", "--format", "npy", CKPT, url), ("get", url, "k"), (url,), (url, t), (CKPT, url), ("infoo", url), ("umount", url), ("status", url), ("mount", url, f"{t}/none")):
            r = run("--timeout=1", *args, cwd=t) if args[0] in ("info", "ls", "verify") else run(*args, cwd=t)
            said = r.stdout + r.stderr
            check(f"{' '.join(args).replace(t, 'DIR')}: says no password", said and "SEC" not in said and "RET" not in said, said)
finish()
