#include "config.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/xattr.h>
#include <unistd.h>
#include "base/mem.h"
#include "cli/cli.h"
#include "cli/doctor_cache.h"
#include "cli/doctor_mount.h"
#include "cli/doctor_source.h"
#include "cli/doctor_system.h"
#include "cli/text.h"
#include "parse/zstd.h"

struct doctor_options {
	bool json;
};

static const struct sf_opt options[] = {
	{ "json", 0, SF_OPT_FLAG, offsetof(struct doctor_options, json), NULL, NULL, "print JSON" },
	{ 0 },
};

enum { PATH_ROOM = 1024 };

/* How bad a finding is: a mount fails, or something is slower or closed to others. */
enum state { OK, HINT, BAD };

struct report {
	bool json;
	unsigned n, bad;
	struct sf_system system;
	bool of_source;     /* it is about a SOURCE, not about this machine */
	bool tried, mounts; /* a mount was tried; and it worked: what seems to be missing is not */
};

static void say(struct report *r, const char *what, enum state state, const char *found,
                const char *remedy)
{
	const char *const words[] = { "ok", "hint", r->of_source ? "wrong" : "missing" };
	if (r->json) {
		printf("%s\n  {\"check\": ", r->n ? "," : "");
		sf_put_json(stdout, what, strlen(what));
		printf(", \"state\": \"%s\", \"found\": ", words[state]);
		sf_put_json(stdout, found, strlen(found));
		printf(", \"remedy\": ");
		if (state == OK)
			printf("null");
		else
			sf_put_json(stdout, remedy, strlen(remedy));
		printf("}");
	} else {
		printf("%-8s %-18s ", words[state], what);
		sf_put_name(stdout, found, strlen(found));
		putchar('\n');
		if (state != OK) { /* names that a server or a directory has are in some */
			printf("%-27s -> ", "");
			sf_put_name(stdout, remedy, strlen(remedy));
			putchar('\n');
		}
	}
	r->n++;
	r->bad += state == BAD;
}

/* What a mount needs, unless one has just worked without. */
static enum state need(const struct report *r, bool there)
{
	return there || r->mounts ? OK : BAD;
}

/* The first in $PATH; false: none. */
static bool in_path(const char *program, char full[PATH_ROOM])
{
	const char *path = getenv("PATH");
	SF_FREE char *copy = strdup(path ? path : "/usr/bin:/bin");
	char *save = NULL;

	for (char *dir = copy ? strtok_r(copy, ":", &save) : NULL; dir;
	     dir = strtok_r(NULL, ":", &save)) {
		snprintf(full, PATH_ROOM, "%s/%s", dir, program);
		if (access(full, X_OK) == 0)
			return true;
	}
	return false;
}

static bool fuse_conf_allows(void)
{
	FILE *f = fopen("/etc/fuse.conf", "re");
	char line[256];
	bool found = false;

	while (f && !found && fgets(line, sizeof(line), f))
		found = strncmp(line, "user_allow_other", 16) == 0;
	if (f)
		fclose(f);
	return found;
}

static void check_system(struct report *r)
{
	char found[256];

	snprintf(found, sizeof(found), "%s%s%s", r->system.name,
	         r->system.container ? ", in a container of " : "",
	         r->system.container ? r->system.container : "");
	say(r, "system", OK, found, "");
}

static void check_libfuse(struct report *r)
{
	char remedy[256], package[160];

	snprintf(remedy, sizeof(remedy), "%s, then configure and make again",
	         sf_system_install(&r->system, false, "libfuse3-dev", "fuse3-devel", package,
	                           sizeof(package)));
	say(r, "libfuse", *SF_LIBFUSE ? OK : BAD,
	    *SF_LIBFUSE ? SF_LIBFUSE : "built without libfuse", remedy);
}

static void check_device(struct report *r)
{
	int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	int why = errno;
	char found[128];

	snprintf(found, sizeof(found), "/dev/fuse: %s", fd >= 0 ? "opens" : strerror(why));
	say(r, "device", need(r, fd >= 0), found,
	    why == EACCES ? "your user may not open it, which libfuse does before fusermount3 is "
	                    "asked: sudo chmod 666 /dev/fuse"
	                  : sf_system_device(&r->system));
	if (fd >= 0)
		close(fd);
}

/*
 * Containers open the device to a root who may not mount, and to users for whom fusermount3's
 * setuid bit is void. Source: proc_pid_status(5), capabilities(7): CAP_SYS_ADMIN is bit 21.
 */
static void check_right(struct report *r)
{
	FILE *f = fopen("/proc/self/status", "re");
	unsigned long long caps = ~0ull;
	bool root = r->system.root;
	unsigned no_new = 0;
	char line[512];

	while (f && fgets(line, sizeof(line), f)) {
		sscanf(line, root ? "CapEff: %llx" : "CapBnd: %llx", &caps);
		sscanf(line, "NoNewPrivs: %u", &no_new);
	}
	if (f)
		fclose(f);
	bool lacks = !(caps >> 21 & 1), bound = !root && no_new;
	say(r, "right to mount", need(r, !lacks && !bound),
	    lacks   ? "no CAP_SYS_ADMIN"
	    : bound ? "no_new_privs: fusermount3 gets no rights"
	    : root  ? "CAP_SYS_ADMIN"
	            : "fusermount3's",
	    lacks ? sf_system_right(&r->system)
	          : "let the process gain privileges (docker: no-new-privileges off; Kubernetes: "
	            "allowPrivilegeEscalation: true; systemd: NoNewPrivileges=no), or mount as "
	            "root");
}

static void check_fusermount(struct report *r)
{
	char path[PATH_ROOM], found[PATH_ROOM + 64], remedy[3 * PATH_ROOM], package[160];
	bool root = r->system.root, there = in_path("fusermount3", path);
	struct stat st;

	if (!there) {
		snprintf(remedy, sizeof(remedy), "%s%s",
		         root ? "root mounts without it; others need it: " : "",
		         sf_system_install(&r->system, false, "fuse3", "fuse3", package,
		                           sizeof(package)));
		say(r, "fusermount3", root ? HINT : need(r, false), "not in PATH", remedy);
		return;
	}
	/* a file capability does as well as the bit */
	bool may = stat(path, &st) == 0 && ((st.st_uid == 0 && st.st_mode & S_ISUID) ||
	                                    getxattr(path, "security.capability", NULL, 0) > 0);
	snprintf(found, sizeof(found), may ? "%s" : "%s is not setuid root", path);
	snprintf(remedy, sizeof(remedy), "%s%schown root %s && %schmod u+s %s, or %s",
	         root ? "root mounts without it; others need it: " : "", root ? "" : "sudo ", path,
	         root ? "" : "sudo ", path,
	         sf_system_install(&r->system, true, "fuse3", "fuse3", package, sizeof(package)));
	say(r, "fusermount3", may ? OK : root ? HINT : need(r, false), found, remedy);
}

static bool has_mtab(const struct report *r)
{
	return r->system.root || access("/etc/mtab", R_OK) == 0;
}

/* minbase images have none; root unmounts without fusermount3. */
static void check_mtab(struct report *r)
{
	if (!r->system.root)
		say(r, "mtab", has_mtab(r) ? OK : BAD,
		    has_mtab(r) ? "/etc/mtab" : "no /etc/mtab: fusermount3 could not unmount",
		    "sudo ln -s /proc/self/mounts /etc/mtab");
}

static void check_allow_other(struct report *r)
{
	bool allowed = fuse_conf_allows();

	say(r, "allow_other", r->system.root || allowed ? OK : HINT,
	    r->system.root ? "root may use it"
	    : allowed      ? "allowed in /etc/fuse.conf"
	                   : "other users cannot read your mounts",
	    "to let them: echo user_allow_other | sudo tee -a /etc/fuse.conf, and -o allow_other");
}

static void check_files(struct report *r)
{
	struct rlimit files;
	char found[128];

	getrlimit(RLIMIT_NOFILE, &files);
	snprintf(found, sizeof(found), "%llu, at most %llu", (unsigned long long)files.rlim_cur,
	         (unsigned long long)files.rlim_max);
	say(r, "open files", files.rlim_max >= 1024 ? OK : HINT, found,
	    "ulimit -n 1024 or more: shards are opened and closed too often below");
}

static void check_zstd(struct report *r)
{
	char remedy[256], package[160];
	struct sf_unzstd *z;
	bool zstd = sf_unzstd_new(&z, NULL) >= 0;

	if (zstd)
		sf_unzstd_free(z);
	snprintf(remedy, sizeof(remedy),
	         "compressed items cannot be read: %s, then configure and "
	         "make again",
	         sf_system_install(&r->system, false, "libzstd-dev", "libzstd-devel", package,
	                           sizeof(package)));
	say(r, "zstd", zstd ? OK : HINT, zstd ? "built in" : "not built in", remedy);
}

static void check_cache(struct report *r, const struct sf_common *common)
{
	static const enum state as[] = {
		[SF_PROBE_OK] = OK, [SF_PROBE_HINT] = HINT, [SF_PROBE_BAD] = BAD
	};
	SF_FREE char *found = NULL;
	const char *remedy;
	enum sf_probe_state state = sf_doctor_cache(&common->session.store, &found, &remedy);

	say(r, "cache", as[state], found ? found : "no memory", remedy);
}

static void check_kernel(struct report *r)
{
	struct utsname u;
	int major = 0, minor = 0;

	uname(&u);
	sscanf(u.release, "%d.%d", &major, &minor);
	bool passthrough = major > 6 || (major == 6 && minor >= 9);
	say(r, "kernel", passthrough ? OK : HINT, u.release,
	    "Linux 6.9 and later serve shards/ by passthrough (as root)");
}

/* A mount as the user would make it; what it says goes before all that could be the reason. */
static void try_mount(struct report *r, struct sf_error *why)
{
	char path[PATH_ROOM];

	if (!*SF_LIBFUSE || access("/dev/fuse", F_OK) < 0)
		return;
	/* one that cannot be unmounted again would stay */
	if (!r->system.root && (!in_path("fusermount3", path) || !has_mtab(r)))
		return;
	r->tried = true;
	r->mounts = sf_doctor_mount(SF_DOCTOR_MOUNT_MS, why) >= 0;
}

static void report_mount(struct report *r, const struct sf_error *why)
{
	if (!r->tried)
		say(r, "a mount", r->bad ? HINT : BAD, "not tried",
		    "fix what is missing above, then run it again");
	else
		say(r, "a mount", r->mounts ? OK : BAD,
		    r->mounts ? "works (tried in a temporary directory)" : why->msg,
		    r->bad ? "fix what is missing above, then run it again"
		           : sf_system_device(&r->system));
}

static void say_of_source(void *arg, enum sf_probe_state state, const char *what, const char *found,
                          const char *remedy)
{
	static const enum state as[] = {
		[SF_PROBE_OK] = OK, [SF_PROBE_HINT] = HINT, [SF_PROBE_BAD] = BAD
	};

	say(arg, what, as[state], found, remedy ? remedy : "");
}

static int check_source(struct report *r, const struct sf_common *common, const char *source)
{
	bool fine;

	r->of_source = true;
	if (r->json)
		printf("{\"schema\": 1, \"version\": \"%s\", \"checks\": [", PACKAGE_VERSION);
	fine = sf_doctor_source(&common->session, source, say_of_source, r);
	if (r->json)
		printf("\n],\n \"ready\": %s}\n", fine ? "true" : "false");
	else
		printf("\n%s\n", fine ? "it can be read" : "it cannot be read");
	return fine ? SF_EXIT_OK : SF_EXIT_FAILED;
}

static int run(const void *opt, const struct sf_common *common, int argc, char **argv)
{
	const struct doctor_options *o = opt;
	struct report r = { .json = o->json };
	struct sf_error why = SF_ERROR_INIT;

	if (argc)
		return check_source(&r, common, argv[0]);
	sf_system_look(&r.system, NULL);
	try_mount(&r, &why);
	if (r.json)
		printf("{\"schema\": 1, \"version\": \"%s\", \"checks\": [", PACKAGE_VERSION);
	check_system(&r);
	check_libfuse(&r);
	check_device(&r);
	check_right(&r);
	check_kernel(&r);
	check_fusermount(&r);
	check_mtab(&r);
	report_mount(&r, &why);
	check_allow_other(&r);
	check_files(&r);
	check_zstd(&r);
	check_cache(&r, common);
	say(&r, "readahead", r.system.root ? OK : HINT,
	    r.system.root ? "set to 1 MiB at mount" : "the kernel's default of 128 KiB",
	    "root sets it for its own mounts; for yours: echo 1024 | sudo tee "
	    "/sys/class/bdi/$(mountpoint -d MOUNTPOINT)/read_ahead_kb");
	if (r.json)
		printf("\n],\n \"ready\": %s}\n", r.bad ? "false" : "true");
	else
		printf("\n%s\n", !r.bad                        ? "ready to mount"
		                 : r.bad == 1 && !has_mtab(&r) ? "unmounting will fail here"
		                                               : "mounting will fail here");
	return r.bad ? SF_EXIT_FAILED : SF_EXIT_OK;
}

const struct sf_cmd sf_cmd_doctor = {
	.name = "doctor",
	.usage = "[--json] [SOURCE]",
	.about = "check whether this machine can mount, by mounting, or why SOURCE cannot be read, "
		 "and say how to fix what is wrong",
	.example = "shardfuse doctor s3://bucket/run/step9000",
	.options = options,
	.common = true,
	.min_args = 0,
	.max_args = 1,
	.opt_size = sizeof(struct doctor_options),
	.run = run,
};
