#include "config.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>
#include "base/mem.h"
#include "cli/cli.h"
#include "cli/text.h"
#include "parse/zstd.h"

struct doctor_options {
	bool json;
};

static const struct sf_opt options[] = {
	{ "json", 0, SF_OPT_FLAG, offsetof(struct doctor_options, json), NULL, NULL,
	  "for machines" },
	{ 0 },
};

/* How bad a finding is: a mount fails, or something is slower or closed to others. */
enum state { OK, HINT, BAD };

struct report {
	bool json;
	unsigned n, bad;
};

static void say(struct report *r, const char *what, enum state state, const char *found,
                const char *remedy)
{
	static const char *const words[] = { "ok", "hint", "missing" };
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
		printf("%-8s %-18s %s\n", words[state], what, found);
		if (state != OK)
			printf("%-27s -> %s\n", "", remedy);
	}
	r->n++;
	r->bad += state == BAD;
}

static bool in_path(const char *program)
{
	const char *path = getenv("PATH");
	SF_FREE char *copy = strdup(path ? path : "/usr/bin:/bin");
	char *save = NULL, full[4096];

	for (char *dir = copy ? strtok_r(copy, ":", &save) : NULL; dir;
	     dir = strtok_r(NULL, ":", &save)) {
		snprintf(full, sizeof(full), "%s/%s", dir, program);
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

static void check_device(struct report *r)
{
	int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	int why = errno;
	char found[128];

	snprintf(found, sizeof(found), "/dev/fuse: %s", fd >= 0 ? "opens" : strerror(why));
	say(r, "device", fd >= 0 ? OK : BAD, found,
	    why == EACCES
	            ? "your user may not open it: ask for membership of its group, or root"
	            : "modprobe fuse; in a container: --device /dev/fuse --cap-add SYS_ADMIN");
	if (fd >= 0)
		close(fd);
}

/*
 * Containers open the device to a root who may not mount, and to users for whom fusermount3's
 * setuid bit is void. Source: proc_pid_status(5), capabilities(7): CAP_SYS_ADMIN is bit 21.
 */
static void check_right(struct report *r, bool root)
{
	FILE *f = fopen("/proc/self/status", "re");
	unsigned long long caps = ~0ull;
	unsigned no_new = 0;
	char line[512];

	while (f && fgets(line, sizeof(line), f)) {
		sscanf(line, root ? "CapEff: %llx" : "CapBnd: %llx", &caps);
		sscanf(line, "NoNewPrivs: %u", &no_new);
	}
	if (f)
		fclose(f);
	bool lacks = !(caps >> 21 & 1), bound = !root && no_new;
	say(r, "right to mount", lacks || bound ? BAD : OK,
	    lacks   ? "no CAP_SYS_ADMIN"
	    : bound ? "no_new_privs: fusermount3 gets no rights"
	    : root  ? "CAP_SYS_ADMIN"
	            : "fusermount3's",
	    lacks ? "in a container: --cap-add SYS_ADMIN (and --security-opt apparmor=unconfined)"
	          : "in a container: allow privilege escalation, or run as root with SYS_ADMIN");
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

static int run(const void *opt, const struct sf_common *common, int argc, char **argv)
{
	const struct doctor_options *o = opt;
	struct report r = { .json = o->json };
	bool root = geteuid() == 0;
	struct rlimit files;
	struct sf_unzstd *z;
	char found[128];
	(void)common, (void)argc, (void)argv;

	if (r.json)
		printf("{\"schema\": 1, \"version\": \"%s\", \"checks\": [", PACKAGE_VERSION);
	say(&r, "libfuse", *SF_LIBFUSE ? OK : BAD, *SF_LIBFUSE ? SF_LIBFUSE : "not built in",
	    "built without libfuse: configure found no libfuse3-dev (Fedora: fuse3-devel)");
	check_device(&r);
	check_right(&r, root);
	check_kernel(&r);
	say(&r, "fusermount3",
	    in_path("fusermount3") ? OK
	    : root                 ? HINT
	                           : BAD,
	    in_path("fusermount3") ? "found" : "not in PATH",
	    root ? "root mounts without it; others need the package fuse3"
	         : "install the package fuse3");
	say(&r, "allow_other", root || fuse_conf_allows() ? OK : HINT,
	    root                 ? "root may"
	    : fuse_conf_allows() ? "allowed in /etc/fuse.conf"
	                         : "not allowed",
	    "put the line 'user_allow_other' into /etc/fuse.conf to let other users read your "
	    "mounts");
	if (!root)
		say(&r, "mtab", access("/etc/mtab", R_OK) == 0 ? OK : HINT,
		    access("/etc/mtab", R_OK) == 0 ? "there" : "no /etc/mtab",
		    "fusermount3 unmounts nothing without it: ln -s /proc/self/mounts /etc/mtab");
	getrlimit(RLIMIT_NOFILE, &files);
	snprintf(found, sizeof(found), "%llu, at most %llu", (unsigned long long)files.rlim_cur,
	         (unsigned long long)files.rlim_max);
	say(&r, "open files", files.rlim_max >= 1024 ? OK : HINT, found,
	    "ulimit -n 1024 or more: shards are opened and closed too often below");
	bool zstd = sf_unzstd_new(&z, NULL) >= 0;
	if (zstd)
		sf_unzstd_free(z);
	say(&r, "zstd", zstd ? OK : HINT, zstd ? "built in" : "not built in",
	    "configure found no libzstd: compressed items cannot be read");
	say(&r, "readahead", root ? OK : HINT,
	    root ? "set to 1 MiB at mount" : "the kernel's default of 128 KiB",
	    "root sets it for its own mounts; for yours: echo 1024 > "
	    "/sys/class/bdi/DEV/read_ahead_kb");
	if (r.json)
		printf("\n]}\n");
	else
		printf(r.bad ? "\nmounting will fail here\n" : "\nready to mount\n");
	return r.bad ? SF_EXIT_FAILED : SF_EXIT_OK;
}

const struct sf_cmd sf_cmd_doctor = {
	.name = "doctor",
	.usage = "[--json]",
	.about = "what this machine lacks to mount, each with its remedy",
	.example = "shardfuse doctor",
	.options = options,
	.min_args = 0,
	.max_args = 0,
	.opt_size = sizeof(struct doctor_options),
	.run = run,
};
