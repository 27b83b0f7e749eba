#!/usr/bin/env python3
"""doctor on machines that lack something: what it says there, and that nothing of its trial stays. In mount namespaces of its own, as root."""
import shutil
import textwrap

from common import *

need_program()
CKPT, _ = case("dcp/fsdp4")
W = tempfile.mkdtemp(prefix="sf-doctor-")
os.chmod(W, 0o755)
USER = "setpriv --reuid 65534 --regid 65534 --clear-groups"


def states(r):
    return {line[9:28].strip(): line.split()[0] for line in r.stdout.splitlines() if line.split() and line.split()[0] in ("ok", "hint", "missing")}


def here():
    env = {"TMPDIR": f"{W}/tmp"}
    os.mkdir(f"{W}/tmp")
    r = run("doctor", env=env)
    s = states(r)
    check("doctor: the system and a verdict", "system" in s and r.returncode == ("missing" in s.values()) and ("ready to mount" in r.stdout) == (r.returncode == 0), r.stdout)
    if no_fuse() is None:
        check("doctor mounts where a mount works", s["a mount"] == "ok" and r.returncode == 0, r.stdout)
    check("doctor leaves nothing", os.listdir(f"{W}/tmp") == [] and f"{W}/tmp" not in open("/proc/self/mountinfo").read())  # other tests mount elsewhere meanwhile
    with attempt("doctor --json"):
        p = run("doctor", "--json", env=env)
        j = json.loads(p.stdout)
        check("doctor --json", j["schema"] == 1 and j["ready"] == (p.returncode == 0) and {c["check"]: c["state"] for c in j["checks"]} == s, j)
    env["TMPDIR"] = "/nonexistent"
    if "a mount" in s and s["a mount"] == "ok":
        r = run("doctor", env=env)
        check("doctor without room for a trial says so", r.returncode == 1 and "/nonexistent" in r.stdout, r.stdout)


def inside(script):
    """A mount namespace where /dev/fuse may be opened by all and W/dev may hold devices; $DOCTOR is the program as a user's."""
    os.makedirs(f"{W}/dev", exist_ok=True)
    head = f"""
        set -e
        mount -t tmpfs tmpfs {W}/dev
        mknod {W}/dev/fuse c 10 229
        chmod 666 {W}/dev/fuse
        mount --bind {W}/dev/fuse /dev/fuse
        cp {BIN} {W}/dev/shardfuse
        chmod 755 {W}/dev {W}/dev/shardfuse
        mkdir -m 777 {W}/dev/tmp
        export TMPDIR={W}/dev/tmp
    """
    r = subprocess.run(["unshare", "-m", "sh", "-c", textwrap.dedent(head) + textwrap.dedent(script) + f"\nls -A {W}/dev/tmp >&2"], capture_output=True, text=True, timeout=120)
    return r


def users():
    program = f"{USER} {W}/dev/shardfuse"
    r = inside(f"{program} doctor")
    check("doctor as a user mounts through fusermount3", r.returncode == 0 and states(r).get("a mount") == "ok" and r.stderr == "", r.stdout + r.stderr)
    r = inside(f"""
        cp /usr/bin/fusermount3 {W}/dev/f3
        chmod 755 {W}/dev/f3
        mount --bind {W}/dev/f3 /usr/bin/fusermount3
        {program} doctor || echo exit $?
    """)
    s = states(r)
    check("doctor finds a fusermount3 that is not setuid", (s.get("fusermount3"), s.get("a mount")) == ("missing", "missing") and "exit 1" in r.stdout and "chmod u+s" in r.stdout and "ready to mount" not in r.stdout, r.stdout + r.stderr)
    check("and what it said", "a mount            fusermount3: mount failed" in r.stdout, r.stdout)
    check("and leaves nothing", r.stderr == "", r.stderr)
    r = inside(f"""
        mkdir -m 777 {W}/dev/m
        {program} -q {os.path.abspath(CKPT)} {W}/dev/m
        cp -a /etc {W}/dev/etc
        rm -f {W}/dev/etc/mtab
        mount --bind {W}/dev/etc /etc
        {program} doctor || echo exit $?
        {program} umount {W}/dev/m 2>&1 || echo umount exit $?
        umount /etc
        {program} umount {W}/dev/m
    """)
    s = states(r)
    check("doctor knows a missing /etc/mtab and does not try what could not be undone", s.get("mtab") == "missing" and "exit 1" in r.stdout and "ln -s /proc/self/mounts /etc/mtab" in r.stdout and "not tried" in r.stdout, r.stdout + r.stderr)
    check("and says what will fail", "\nunmounting will fail here\n" in r.stdout and "\nmounting will fail" not in r.stdout, r.stdout)
    check("umount there says where help is", "umount exit 1" in r.stdout and "/etc/mtab, which is not there (shardfuse doctor" in r.stdout, r.stdout)
    check("nothing stays there either", r.returncode == 0 and r.stderr == "", (r.returncode, r.stderr))
    r = inside(f"""
        chmod 600 {W}/dev/fuse
        {program} doctor || echo exit $?
    """)
    check("doctor: a device that may not be opened", states(r).get("device") == "missing" and "chmod 666 /dev/fuse" in r.stdout and "exit 1" in r.stdout, r.stdout)
    for text, fix in (('ID=debian\nPRETTY_NAME="Debian 13"\n', "sudo apt-get install fuse3"), ("ID=fedora\n", "sudo dnf install fuse3")):
        with open(f"{W}/os-release", "w") as f:
            f.write(text)
        r = inside(f"""
            mount --bind {W}/os-release /etc/os-release
            PATH=/nonexistent exec /usr/bin/setpriv --reuid 65534 --regid 65534 --clear-groups {W}/dev/shardfuse doctor
        """)
        check(f"doctor: fixes for this machine: {fix}", r.returncode == 1 and fix in r.stdout and states(r).get("fusermount3") == "missing", r.stdout + r.stderr)
    r = inside(f"KUBERNETES_SERVICE_HOST=x; export KUBERNETES_SERVICE_HOST; umount /dev/fuse; mount --bind /dev/null /dev/fuse; {W}/dev/shardfuse doctor || echo exit $?")
    check("doctor does not send to itself", "(shardfuse doctor" not in r.stdout and "a mount" in r.stdout, r.stdout)
    check("doctor in a Pod", "kubernetes" in r.stdout and "privileged: true" in r.stdout and "exit 1" in r.stdout, r.stdout + r.stderr)


for part in (here, users):
    if part is users and (os.geteuid() != 0 or no_fuse() or not shutil.which("setpriv") or not os.path.exists("/usr/bin/fusermount3")
                          or subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode):
        skip("doctor as a user", "needs root, FUSE, fusermount3, setpriv and unshare -m")
        continue
    with attempt(part.__name__):
        part()
shutil.rmtree(W, ignore_errors=True)
finish()
