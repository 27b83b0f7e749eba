"""What doctor says of a SOURCE, and what it has to say where the way to a server is what is wrong."""
import json
import tempfile

import scripted_server
from common import attempt, check, run, skip


def doctor(what, source, env, args=()):
    """{check: (state, found, remedy)} of one run; nothing secret (HUSH) in it, and the verdict is that of the checks."""
    r = run("doctor", "--json", source, "--timeout", "4", *args, env=env)
    check(f"{what}: nothing secret", "HUSH" not in r.stdout + r.stderr, r.stdout + r.stderr)
    with attempt(what):
        j = json.loads(r.stdout)
        bad = [c for c in j["checks"] if c["state"] == "wrong"]
        check(f"{what}: the verdict", j["ready"] == (not bad) == (r.returncode == 0) and len(bad) <= 1, j)
        check(f"{what}: remedies", all(bool(c["remedy"]) == (c["state"] != "ok") for c in j["checks"]), j)
        return {c["check"]: (c["state"], c["found"], c["remedy"] or "") for c in j["checks"]}
    return {}


def wrong(what, source, which, *texts, env, args=(), state="wrong"):
    c = doctor(what, source, env, args)
    check(f"{what}: it is the {which}", c.get(which, ("",))[0] == state, c)
    check(f"{what}: what is said", all(t in " ".join(c.get(which, ("", "", ""))[1:]) for t in texts), c.get(which))
    return c


def ways(handler, of):
    """of(url): (SOURCE there, its environment). handler serves a checkpoint there."""
    plain = scripted_server.serve(handler).url

    def expect(what, url, which, *texts, **more):
        source, env = of(url)
        wrong(f"{what}: {source[:2]}", source, which, *texts, env={**env, **more})

    expect("nobody listens", "http://127.0.0.1:1", "endpoint", "127.0.0.1", "nothing answers there")
    expect("no such host", "http://no-such-host.invalid", "name of the host", "no-such-host.invalid", "DNS")
    expect("TLS where there is none", "https://" + plain[7:], "endpoint", "http:// instead of https://")
    expect("a proxy that is not there", "http://data.invalid", "proxy", "http_proxy", "no_proxy", http_proxy="http://u:HUSH@127.0.0.1:1")
    expect("a proxy of https", "https://data.invalid", "proxy", "https_proxy", https_proxy="http://127.0.0.1:1")
    with tempfile.TemporaryDirectory() as d:
        made = scripted_server.certificate(d)
        if not made:
            return skip("certificates", "no openssl")
        path, tls = made
        port = scripted_server.serve(handler, tls).server_port
        expect("a certificate", f"https://localhost:{port}", "certificate", "certificate", "--ca-bundle")
        expect("a certificate of another host", f"https://127.0.0.1:{port}", "certificate", "127.0.0.1", SSL_CERT_FILE=path)
        source, env = of(f"https://localhost:{port}")
        c = doctor(f"a certificate that is known: {source[:2]}", source, {**env, "SSL_CERT_FILE": path})
        check(f"a certificate that is known: {source[:2]}", "SSL_CERT_FILE" in c["certificates"][1] and c["checkpoint"][0] == "ok", c)
