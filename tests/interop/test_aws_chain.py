#!/usr/bin/env python3
"""botocore chooses the same credentials for the same variables and files, and where it finds them contradictory we do."""
import os, subprocess, sys, tempfile

TOOL = os.path.join(os.path.dirname(os.environ.get("SHARDFUSE", "./shardfuse")), "tests/tool_aws_credentials")
passed, failed = 0, 0


def check(what, ok, why=""):
    global passed, failed
    passed, failed = passed + bool(ok), failed + (not ok)
    if not ok:
        print(f"FAIL: {what} {why}")


def skip(why):
    print(f"SKIP: {why}\n0 passed, 0 failed, 1 skipped")
    sys.exit(77)


try:
    import botocore.session
except ImportError:
    skip(f"no botocore for {sys.executable}")
if not os.access(TOOL, os.X_OK):
    skip(f"{TOOL} is not built")

THEIRS = """
import sys, botocore.session
s = botocore.session.Session(profile=sys.argv[1] if len(sys.argv) > 1 else None)
c = s.get_credentials()
if c is None: sys.exit("none")
if c.method == "assume-role" or c.method == "assume-role-with-web-identity" or c.method == "sso": print("asks", c.method); sys.exit(0)
c = c.get_frozen_credentials()
print(c.access_key, c.secret_key, c.token or "", sep="\\n")
"""
PROCESS = """echo '{"Version": 1, "AccessKeyId": "P", "SecretAccessKey": "p s"}'"""
ENV = {"AWS_ACCESS_KEY_ID": "E", "AWS_SECRET_ACCESS_KEY": "e"}
CONFIG = f"""# a comment
[default]
region = eu-west-1
aws_access_key_id = CD
aws_secret_access_key = cd
[profile both]
aws_access_key_id=C
aws_secret_access_key=c
[profile config]
AWS_ACCESS_KEY_ID : CC
aws_secret_access_key = c=c#c ; c
aws_session_token = t

[profile "two words"]
aws_access_key_id = T
aws_secret_access_key = t
[profile process]
credential_process = {PROCESS}
aws_access_key_id = X
aws_secret_access_key = x
[profile fails]
credential_process = false
[profile half]
aws_access_key_id = H
[profile loop1]
role_arn = r
source_profile = loop2
[profile loop2]
role_arn = r
source_profile = loop1
[profile gone]
role_arn = r
source_profile = nobody
[profile two]
role_arn = r
source_profile = both
credential_source = Environment
[profile neither]
role_arn = r
[profile empty]
region = x
[profile nested]
s3 =
  addressing_style = path
aws_access_key_id = N
aws_secret_access_key = n
[unrelated]
aws_access_key_id = U
aws_secret_access_key = u
"""
CREDENTIALS = """[both]
aws_access_key_id = S
aws_secret_access_key = s/+=
[only]
aws_access_key_id = O
aws_secret_access_key = o
aws_session_token = ot
[processed]
aws_access_key_id = O2
aws_secret_access_key = o2
"""
NAMES = ["default", "both", "config", "two words", "process", "fails", "half", "loop1", "gone", "two", "neither", "empty", "nested", "unrelated", "only", "nobody"]
ASKS_NOBODY = {"AWS_EC2_METADATA_DISABLED": "true", "PATH": os.environ["PATH"], "PYTHONPATH": ":".join(p for p in sys.path if p)}


def compare(what, home, env, *profile):
    env = dict(ASKS_NOBODY, HOME=home, **env)
    theirs = subprocess.run([sys.executable, "-c", THEIRS, *profile], env=env, capture_output=True, text=True)
    ours = subprocess.run([TOOL, *profile], env=env, capture_output=True, text=True)
    if theirs.returncode:
        check(f"{what}: an error for both", ours.returncode == 1, f"ours {ours.stdout!r}, botocore {theirs.stderr[-200:]!r}")
    else:
        check(f"{what}: the same", ours.stdout.split("\n")[:3] == theirs.stdout.split("\n")[:3], f"ours {ours.stdout!r}, botocore {theirs.stdout!r}")


with tempfile.TemporaryDirectory() as home:
    compare("nothing", home, {})
    compare("variables alone", home, ENV)
    os.mkdir(home + "/.aws")
    for name, text in (("config", CONFIG), ("credentials", CREDENTIALS), ("other", "[profile o]\naws_access_key_id=1\naws_secret_access_key=2\n[default]\nx=y\n")):
        with open(f"{home}/.aws/{name}", "w") as f:
            f.write(text)
    for name in NAMES:
        compare(f"--profile {name}", home, {}, name)
        compare(f"AWS_PROFILE={name}", home, {"AWS_PROFILE": name})
        compare(f"--profile {name} beside variables", home, ENV, name)
    compare("no profile", home, {})
    compare("variables before the default profile", home, ENV)
    compare("AWS_DEFAULT_PROFILE", home, {"AWS_DEFAULT_PROFILE": "both"})
    compare("a token in variables", home, dict(ENV, AWS_SESSION_TOKEN="x"))
    compare("half of the variables", home, {"AWS_ACCESS_KEY_ID": "E"})
    compare("the other half", home, {"AWS_SECRET_ACCESS_KEY": "E"})
    compare("an empty variable", home, {"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": "e"})
    compare("another config file", home, {"AWS_CONFIG_FILE": home + "/.aws/other", "AWS_PROFILE": "o"})
    compare("another config file below ~", home, {"AWS_CONFIG_FILE": "~/.aws/other", "AWS_PROFILE": "o"})
    compare("another credentials file", home, {"AWS_SHARED_CREDENTIALS_FILE": home + "/none", "AWS_PROFILE": "both"})
print(f"{passed} passed, {failed} failed, 0 skipped")
sys.exit(failed > 0)
