"""Real servers for test_servers.py, each with data of its own below a temporary directory, on free ports of 127.0.0.1.

with start("swift", dir) as s: s.url, s.key, s.secret. Raises Missing with the reason where a server cannot be had here; a server that is
there and does not start is a RuntimeError with the end of its logs. What they come from: APT and requirements-servers.txt.
"""
import importlib.util
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
import uuid

APT = {
    "swift": "swift-proxy swift-account swift-container swift-object memcached",
    "ceph": "radosgw ceph-osd ceph-mon ceph-common",
    "nginx": "nginx openssl",
}


class Missing(Exception):
    pass


def program(name, server):
    """Beside the interpreter (PyPI's), or installed."""
    at = os.path.join(os.path.dirname(sys.executable), name)
    if os.access(at, os.X_OK):
        return at
    at = shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    if not at:
        how = f"apt-get install {APT[server]}" if server in APT else "pip install -r tests/interop/requirements-servers.txt"
        raise Missing(f"no {name} ({how})")
    return at


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def status(url, headers=None, ca=None):
    """Of an answer to GET; None: there was none."""
    import ssl
    handlers = [urllib.request.ProxyHandler({})]
    if ca:
        handlers.append(urllib.request.HTTPSHandler(context=ssl.create_default_context(cafile=ca)))
    try:
        with urllib.request.build_opener(*handlers).open(urllib.request.Request(url, headers=headers or {}), timeout=3) as r:
            return r.status
    except urllib.error.HTTPError as e:
        return e.code
    except OSError:
        return None


class Server:
    region = "us-east-1"
    checks_secret = True    # a wrong one is refused
    says_secret, says_key = "does not match the key id", "does not know the access key id"  # what becomes of its words for a wrong one
    ignores_range = False
    start_s = 120

    def __init__(self, where):
        self.dir, self.procs, self.extra = where, [], {}

    def __enter__(self):
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *a):
        for p, _ in reversed(self.procs):  # what uses others first
            for sig, wait in ((signal.SIGTERM, 5), (signal.SIGKILL, 30)):
                try:
                    os.killpg(p.pid, sig)
                    p.wait(wait)
                    break
                except ProcessLookupError:
                    break
                except subprocess.TimeoutExpired:
                    continue
            try:
                os.killpg(p.pid, signal.SIGKILL)  # workers that outlived it
            except ProcessLookupError:
                pass
            p.wait()

    def write(self, name, text):
        at = f"{self.dir}/{name}"
        with open(at, "w") as f:
            f.write(text)
        return at

    def spawn(self, name, *argv, env=None):
        log = f"{self.dir}/{name}.log"
        with open(log, "w") as f:
            p = subprocess.Popen([str(a) for a in argv], stdin=subprocess.DEVNULL, stdout=f, stderr=f, start_new_session=True, cwd=self.dir,
                                 env=dict(os.environ, HOME=self.dir, **(env or {})))
        self.procs.append((p, log))

    def quiet(self, *argv):
        r = subprocess.run([str(a) for a in argv], capture_output=True, text=True, timeout=120)
        if r.returncode:
            raise RuntimeError(f"{argv[0]}: exit {r.returncode}: {(r.stdout + r.stderr)[-500:]}")

    def wait_for(self, what, fn):
        end = time.monotonic() + self.start_s
        while not fn():
            for p, log in self.procs:
                if p.poll() is not None or time.monotonic() > end:
                    with open(log, errors="replace") as f:
                        raise RuntimeError(f"{type(self).__name__}: no {what}; {os.path.basename(log)} ends: {f.read()[-800:]}")
            time.sleep(0.1)


class Swift(Server):
    """OpenStack Swift on one node, with s3api and tempauth."""
    key, secret = "test:tester", "testing"
    says_key = "does not match the key id"

    def start(self):
        swift = {s: program(f"swift-{s}-server", "swift") for s in ("account", "container", "object", "proxy")}
        memcached, d = program("memcached", "swift"), self.dir
        port = {s: free_port() for s in ("account", "container", "object", "proxy", "memcached")}
        os.makedirs(d + "/srv/d1")
        try:
            os.setxattr(d + "/srv", "user.t", b"1")
        except OSError as e:
            raise Missing(f"no user xattrs in {d}: {e.strerror}") from e
        self.write("swift.conf", "[swift-hash]\nswift_hash_path_prefix = shardfuse\nswift_hash_path_suffix = test\n"
                                 "[storage-policy:0]\nname = default\ndefault = yes\n")
        rings = "import sys\nfrom swift.common.ring import RingBuilder\n" \
                "for name, port in zip(('account', 'container', 'object'), sys.argv[2:]):\n" \
                "    b = RingBuilder(4, 1, 1)\n" \
                "    b.add_dev(dict(region=1, zone=1, ip='127.0.0.1', port=int(port), device='d1', weight=1.0, replication_ip='127.0.0.1',\n" \
                "                   replication_port=int(port), meta=''))\n" \
                "    b.rebalance()\n    b.get_ring().save(f'{sys.argv[1]}/{name}.ring.gz')\n"
        self.quiet("/usr/bin/python3", "-c", rings, d, port["account"], port["container"], port["object"])
        user = subprocess.run(["id", "-un"], capture_output=True, text=True, check=True).stdout.strip()
        self.spawn("memcached", memcached, "-u", user, "-l", "127.0.0.1", "-p", port["memcached"], "-m", 64)
        pipeline = "catch_errors gatekeeper healthcheck cache listing_formats bulk s3api tempauth slo dlo proxy-server"
        more = {"cache": f"use = egg:swift#memcache\nmemcache_servers = 127.0.0.1:{port['memcached']}\n",
                "s3api": "use = egg:swift#s3api\ns3_acl = false\nlocation = us-east-1\n",
                "tempauth": "use = egg:swift#tempauth\nuser_test_tester = testing .admin\n"}
        for s, bin in swift.items():
            text = f"[DEFAULT]\nbind_ip = 127.0.0.1\nbind_port = {port[s]}\nuser = {user}\nswift_dir = {d}\ndevices = {d}/srv\nmount_check = false\n" \
                   f"workers = {2 if s == 'proxy' else 0}\ndisable_fallocate = true\nlog_address = {d}/no-syslog\nlog_level = WARNING\n"
            if s == "proxy":
                text += f"[pipeline:main]\npipeline = {pipeline}\n[app:proxy-server]\nuse = egg:swift#proxy\naccount_autocreate = true\n"
                for f in pipeline.split()[:-1]:
                    text += f"[filter:{f}]\n" + more.get(f, f"use = egg:swift#{f}\n")
            else:
                text += f"[pipeline:main]\npipeline = {s}-server\n[app:{s}-server]\nuse = egg:swift#{s}\n"
            self.spawn(s, bin, self.write(f"{s}.conf", text))
        self.url = f"http://127.0.0.1:{port['proxy']}"
        for s in ("account", "container", "object"):
            self.wait_for(s, lambda s=s: status(f"http://127.0.0.1:{port[s]}/") is not None)
        self.wait_for("proxy", lambda: status(self.url + "/healthcheck") == 200)
        self.wait_for("account of the user", lambda: status(self.url + "/auth/v1.0", {"X-Storage-User": self.key, "X-Storage-Pass": self.secret}) == 200)


class Ceph(Server):
    """Ceph's RGW over a monitor and one OSD that keeps all in memory; a role for sts:AssumeRole."""
    key, secret = "TESTKEY", "test/Secret+Key=1"
    says_secret = says_key = "refuses the request: 403 AccessDenied (credentials: environment variables)"  # since tokens are looked at too
    role = "arn:aws:iam:::role/test"

    def start(self):
        bin = {p: program(p, "ceph") for p in ("ceph-mon", "ceph-osd", "radosgw", "radosgw-admin", "ceph", "ceph-authtool", "monmaptool")}
        d, port, v1, v2, fsid = self.dir, free_port(), free_port(), free_port(), uuid.uuid4()
        for name in ("mon.a", "osd.0", "rgw"):
            os.mkdir(f"{d}/{name}")
        conf = self.write("ceph.conf", f"""[global]
fsid = {fsid}
mon_host = v2:127.0.0.1:{v2},v1:127.0.0.1:{v1}
mon_initial_members = a
public_addr = 127.0.0.1
cluster_addr = 127.0.0.1
ms_bind_ipv6 = false
osd_pool_default_size = 1
osd_pool_default_min_size = 1
osd_pool_default_pg_num = 1
osd_pool_default_pgp_num = 1
osd_pool_default_pg_autoscale_mode = off
osd_crush_chooseleaf_type = 0
mon_allow_pool_size_one = true
mon_max_pg_per_osd = 1000
mon_data_avail_crit = 1
mon_data_avail_warn = 2
auth_allow_insecure_global_id_reclaim = false
paxos_propose_interval = 0.05
paxos_min_wait = 0.01
mon_data = {d}/mon.a
osd_data = {d}/osd.0
rgw_data = {d}/rgw
keyring = {d}/keyring
run_dir = {d}
admin_socket = {d}/$name.asok
log_file = {d}/$name.ceph.log
crash_dir = {d}
mon_cluster_log_file = {d}/cluster.ceph.log
osd_objectstore = memstore
memstore_device_bytes = 1073741824
osd_max_object_name_len = 2048
[client.rgw.a]
rgw_frontends = beast endpoint=127.0.0.1:{port} tcp_nodelay=1
rgw_thread_pool_size = 64
rgw_enable_usage_log = false
rgw_sts_key = 0123456789abcdef
rgw_s3_auth_use_sts = true
""")
        ring = [bin["ceph-authtool"], d + "/keyring", "--gen-key"]
        self.quiet(bin["ceph-authtool"], "-C", d + "/keyring", "--gen-key", "-n", "mon.", "--cap", "mon", "allow *")
        self.quiet(*ring, "-n", "client.admin", "--cap", "mon", "allow *", "--cap", "osd", "allow *", "--cap", "mgr", "allow *")
        self.quiet(*ring, "-n", "client.rgw.a", "--cap", "mon", "allow rw", "--cap", "osd", "allow rwx", "--cap", "mgr", "allow rw")
        self.quiet(*ring, "-n", "osd.0", "--cap", "mon", "allow profile osd", "--cap", "osd", "allow *", "--cap", "mgr", "allow profile osd")
        self.quiet(bin["monmaptool"], "--create", "--fsid", fsid, "--addv", "a", f"[v2:127.0.0.1:{v2},v1:127.0.0.1:{v1}]", d + "/monmap")
        self.quiet(bin["ceph-mon"], "-c", conf, "--mkfs", "-i", "a", "--monmap", d + "/monmap", "--keyring", d + "/keyring")
        self.spawn("mon", bin["ceph-mon"], "-c", conf, "-i", "a", "-f")
        osd = str(uuid.uuid4())
        self.wait_for("monitor", lambda: subprocess.run([bin["ceph"], "-c", conf, "--connect-timeout", "5", "osd", "new", osd],
                                                        capture_output=True, timeout=30).returncode == 0)
        self.quiet(bin["ceph-osd"], "-c", conf, "-i", "0", "--mkfs", "--osd-uuid", osd)
        self.spawn("osd", bin["ceph-osd"], "-c", conf, "-i", "0", "-f")
        self.spawn("rgw", bin["radosgw"], "-c", conf, "-n", "client.rgw.a", "-f")
        self.url = f"http://127.0.0.1:{port}"
        self.wait_for("gateway", lambda: status(self.url + "/") is not None)
        admin = [bin["radosgw-admin"], "-c", conf]
        self.quiet(*admin, "user", "create", "--uid=test", "--display-name=test", "--access-key=" + self.key, "--secret-key=" + self.secret)
        trust = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Principal": {"AWS": ["arn:aws:iam:::user/test"]}, "Action": ["sts:AssumeRole"]}]}
        may = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": ["s3:*"], "Resource": "arn:aws:s3:::*"}]}
        self.quiet(*admin, "role", "create", "--role-name=test", "--assume-role-policy-doc=" + json.dumps(trust))
        self.quiet(*admin, "role-policy", "put", "--role-name=test", "--policy-name=p", "--policy-doc=" + json.dumps(may))


class Seaweed(Server):
    """SeaweedFS, all in one process."""
    key, secret = "SEAWEEDKEY", "seaweed/Secret+Key=1"

    def start(self):
        weed, d = program("weed", "seaweed"), self.dir
        names = ("master.port", "master.port.grpc", "volume.port", "volume.port.grpc", "filer.port", "filer.port.grpc", "s3.port", "s3.port.grpc")
        port = {n: free_port() for n in names}
        os.mkdir(d + "/vol")
        conf = self.write("s3.json", json.dumps({"identities": [{"name": "test", "credentials": [{"accessKey": self.key, "secretKey": self.secret}],
                                                                 "actions": ["Admin", "Read", "Write", "List", "Tagging"]}]}))
        self.spawn("weed", weed, "-logtostderr=true", "server", f"-dir={d}/vol", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-master.volumeSizeLimitMB=1024",
                   "-volume.max=64", "-volume.preStopSeconds=0", "-filer", "-s3", "-s3.port.iceberg=0", f"-s3.config={conf}", *(f"-{n}={p}" for n, p in port.items()))
        self.url = f"http://127.0.0.1:{port['s3.port']}"
        self.wait_for("gateway", lambda: status(self.url + "/healthz") == 200)
        self.wait_for("volume", lambda: status(f"http://127.0.0.1:{port['master.port']}/dir/assign") == 200)


class Moto(Server):
    """moto: AWS's interface in memory; signatures are not checked."""
    key, secret = "test", "test"
    checks_secret = False

    def start(self):
        port = free_port()
        self.spawn("moto", program("moto_server", "moto"), "-H", "127.0.0.1", "-p", port)
        self.url = f"http://127.0.0.1:{port}"
        self.wait_for("server", lambda: status(self.url + "/moto-api/data.json") == 200)


class Rclone(Server):
    """rclone serve s3 on a directory: it answers a range with 200 and does not look at If-Match."""
    key, secret = "RCLONEKEY", "rclone/Secret+Key=1"
    ignores_range = True

    def start(self):
        port, d = free_port(), self.dir
        os.mkdir(d + "/root")
        self.spawn("rclone", program("rclone", "rclone"), "serve", "s3", "--config", d + "/rclone.conf", "--addr", f"127.0.0.1:{port}", "--auth-key",
                   f"{self.key},{self.secret}", "--vfs-cache-mode", "off", "--cache-dir", d + "/cache", d + "/root")
        self.url = f"http://127.0.0.1:{port}"
        self.wait_for("server", lambda: status(self.url + "/") is not None)


class Nginx(Server):
    """A directory over http and https, with a certificate of a CA made here. Below /_word/ the same with something wrong."""
    user = "u:p w"

    def start(self):
        nginx, ssl, d = program("nginx", "nginx"), program("openssl", "nginx"), self.dir
        port, tls = free_port(), free_port()
        os.makedirs(d + "/root")
        os.mkdir(d + "/tmp")
        new = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
        for ca in ("ca", "other"):
            self.quiet(ssl, "req", "-x509", *new, "-days", 30, "-subj", f"/CN=shardfuse test {ca}", "-addext", "keyUsage=critical,keyCertSign,cRLSign",
                       "-keyout", f"{d}/{ca}.key", "-out", f"{d}/{ca}.pem")
        self.quiet(ssl, "req", *new, "-subj", "/CN=localhost", "-keyout", d + "/srv.key", "-out", d + "/srv.csr")
        self.write("ext", "subjectAltName=DNS:localhost,IP:127.0.0.1\n")
        self.quiet(ssl, "x509", "-req", "-in", d + "/srv.csr", "-CA", d + "/ca.pem", "-CAkey", d + "/ca.key", "-set_serial", 2, "-days", 30, "-extfile", d + "/ext",
                   "-out", d + "/srv.pem")
        name, password = self.user.split(":")
        hashed = subprocess.run([ssl, "passwd", "-apr1", password], capture_output=True, text=True, check=True).stdout
        self.write("htpasswd", f"{name}:{hashed}")
        conf = self.write("nginx.conf", f"""daemon off;
worker_processes 2;
{"user root;" if os.getuid() == 0 else ""}
pid {d}/nginx.pid;
error_log {d}/error.log;
events {{ worker_connections 1024; }}
http {{
  types {{ }}
  default_type application/octet-stream;
  access_log {d}/access.log;
  client_body_temp_path {d}/tmp/b; proxy_temp_path {d}/tmp/p; fastcgi_temp_path {d}/tmp/f; uwsgi_temp_path {d}/tmp/u; scgi_temp_path {d}/tmp/s;
  sendfile on;
  server {{
    listen 127.0.0.1:{port};
    listen 127.0.0.1:{tls} ssl http2;
    ssl_certificate {d}/srv.pem;
    ssl_certificate_key {d}/srv.key;
    root "{d}/root";
    location /_503/ {{ return 503; }}
    location /_444/ {{ return 444; }}
    location ~ ^/_302(/.*)$ {{ return 302 $1; }}
    location ~ ^/_tls(/.*)$ {{ return 302 https://127.0.0.1:{tls}$1; }}
    location ~ ^/_plain(/.*)$ {{ return 302 http://127.0.0.1:{port}$1; }}
    location /_norange/ {{ alias "{d}/root/"; max_ranges 0; }}
    location /_noetag/ {{ alias "{d}/root/"; etag off; }}
    location /_gzip/ {{ alias "{d}/root/"; gzip on; gzip_types *; gzip_min_length 1; }}
    location /_slow/ {{ alias "{d}/root/"; limit_rate 1m; }}
    location /_auth/ {{ alias "{d}/root/"; auth_basic test; auth_basic_user_file {d}/htpasswd; }}
    location = /_up {{ return 204; }}
  }}
}}
""")
        self.spawn("nginx", nginx, "-e", d + "/error.log", "-c", conf)
        self.url, self.tls, self.ca, self.other_ca = f"http://127.0.0.1:{port}", f"https://127.0.0.1:{tls}", d + "/ca.pem", d + "/other.pem"
        self.wait_for("server", lambda: status(self.url + "/_up") == 204)


ALL = {"swift": Swift, "ceph": Ceph, "seaweed": Seaweed, "moto": Moto, "rclone": Rclone, "nginx": Nginx}


def have(module):
    return importlib.util.find_spec(module) is not None
