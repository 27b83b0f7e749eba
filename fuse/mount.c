#include "config.h"
#include <string.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <syslog.h>
#include <time.h>
#include <unistd.h>
#include "base/mem.h"
#include "catalog/view_wanted.h"
#include "fuse/auto_unmount.h"
#include "fuse/mount.h"
#include "fuse/mount_notes.h"
#include "fuse/mount_options.h"
#include "fuse/mountpoint.h"
#include "fuse/prefetch.h"

/* How the daemon tells its parent: one byte when the mount answers; the pipe's end without it means
 * failure. */
struct daemon {
	int ready_fd; /* -1 in the foreground */
	int lock_fd;  /* the mountpoint's, until the mount answers; -1 none */
	pid_t parent; /* in the background: the command */
	const struct sf_common *common;
	struct sf_mount_notes notes;
	struct sf_session *fetched; /* what is fetched ahead; NULL: nothing */
	struct sf_prefetch prefetch;
	enum sf_prefetch_mode prefetch_mode;
};

static void log_syslog(void *arg, enum sf_log_level level, const char *line)
{
	static const int priority[] = { LOG_ERR, LOG_WARNING, LOG_INFO, LOG_DEBUG };
	(void)arg;
	syslog(priority[level], "%s", line);
}

static int compare_fds(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

/* Closes what is above stderr, but for these, which keep their numbers; any may be -1. */
static void close_all_but(int *kept, size_t n)
{
	unsigned from = STDERR_FILENO + 1;

	qsort(kept, n, sizeof(*kept), compare_fds);
	for (size_t i = 0; i < n; i++) {
		if (kept[i] < (int)from)
			continue;
		if (kept[i] > (int)from)
			close_range(from, (unsigned)kept[i] - 1, 0);
		from = (unsigned)kept[i] + 1;
	}
	close_range(from, ~0U, 0);
}

/*
 * Until the mount answers it is the command's that asked for it: with the command's end, by a
 * signal, it ends too. While nothing is mounted by @sig's default, SIGUSR1's; then by SIGTERM,
 * which serve reads, and unmounts. False: the command is gone already.
 */
static bool end_with_parent(pid_t parent, int sig)
{
	return prctl(PR_SET_PDEATHSIG, sig) == 0 && getppid() == parent;
}

/*
 * Fork before any thread, any library state: what the child makes is the child's. @trace_fd, the
 * one file that is open already, stays. The parent waits for the byte, so it exits 0 only when the
 * mount answers, and with the child's code when it failed. Returns in the child.
 */
static int go_to_background(struct daemon *d, int trace_fd, int failed_code)
{
	const pid_t parent = getpid();
	int fd[2], status = 0;
	char byte;

	if (pipe2(fd, O_CLOEXEC) < 0)
		return -errno;
	pid_t pid = fork();
	if (pid < 0)
		return -errno;
	if (pid == 0) {
		/* what else was inherited may be a lock or a pipe somebody waits for the end of */
		close_all_but((int[]){ fd[1], trace_fd, d->lock_fd }, 3);
		setsid();
		if (!end_with_parent(parent, SIGUSR1))
			_exit(failed_code);
		d->ready_fd = fd[1];
		d->parent = parent;
		return 0;
	}
	close(fd[1]);
	ssize_t n;
	do
		n = read(fd[0], &byte, 1);
	while (n < 0 && errno == EINTR);
	if (n == 1)
		_exit(0);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (!WIFEXITED(status))
		fprintf(stderr, "shardfuse: the daemon was ended by signal %d\n", WTERMSIG(status));
	_exit(WIFEXITED(status) && WEXITSTATUS(status) ? WEXITSTATUS(status) : failed_code);
}

static void serving(void *arg)
{
	struct daemon *d = arg;

	if (d->lock_fd >= 0)
		close(d->lock_fd);
	d->lock_fd = -1;
	sf_mount_notes_say(&d->notes, d->common, d->ready_fd < 0);
	if (d->fetched && !d->fetched->run)
		sf_prefetch_start(&d->prefetch, d->fetched, d->prefetch_mode);
	if (d->ready_fd < 0)
		return;
	prctl(PR_SET_PDEATHSIG, 0); /* it may go now, but not without having heard of us */
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (null >= 0) {
		/* whoever waits for our output to end (a pipe, a terminal) must not wait for the
		 * mount to end */
		dup2(null, 0);
		dup2(null, 1);
		dup2(null, 2);
		close(null);
	}
	ssize_t n = write(d->ready_fd, "", 1);
	if (n != 1)
		kill(getpid(), SIGTERM); /* the parent was ended meanwhile, and so is the mount */
	close(d->ready_fd);
	d->ready_fd = -1;
}

/* A path that must survive the daemon's chdir; what it names need not be there. */
static int make_absolute(const char **path, struct sf_error *err)
{
	SF_FREE char *cwd = NULL;
	char *full;

	if (!*path || **path == '/' || strstr(*path, "://"))
		return 0;
	cwd = getcwd(NULL, 0);
	if (!cwd)
		return sf_fail_errno(err, "the current directory");
	if (asprintf(&full, "%s/%s", cwd, *path) < 0)
		return sf_fail(err, -ENOMEM, "'%s'", *path);
	*path = full; /* kept until the program ends */
	return 0;
}

/* Until serve reads them, signals that end us are waited for here: the storage may not answer. */
static void *end_by_signal(void *arg)
{
	const sigset_t *ending = arg;
	sigset_t one;
	int sig;

	if (sigwait(ending, &sig) != 0)
		return NULL;
	signal(sig, SIG_DFL);
	sigemptyset(&one);
	sigaddset(&one, sig);
	pthread_sigmask(SIG_UNBLOCK, &one, NULL);
	raise(sig);
	return NULL;
}

static int open_session(struct sf_session *s, const struct sf_session_options *opt,
                        const char *source, const sigset_t *ending, struct sf_error *err)
{
	pthread_t id;
	/* without it a signal waits until serve reads it */
	bool waits = pthread_create(&id, NULL, end_by_signal, (void *)ending) == 0;
	int r = sf_session_open(s, opt, source, err);

	if (waits) {
		pthread_cancel(id);
		pthread_join(id, NULL);
	}
	return r;
}

static int mount_and_serve(struct sf_mount_options *o, struct sf_common *common, const char *source,
                           const char *where, int failed_code, struct sf_error *err)
{
	struct sf_serve_options serve;
	struct sf_session s = { 0 };
	struct daemon d = { .ready_fd = -1,
		            .lock_fd = -1,
		            .common = common,
		            .fetched = o->prefetch != SF_PREFETCH_NONE ? &s : NULL,
		            .prefetch_mode = o->prefetch };
	SF_CLEANUP(sf_auto_unmount_end) struct sf_auto_unmount cleaner = { 0 };
	SF_FREE char *mountpoint = NULL;
	SF_FREE char *fuse_options = NULL;
	SF_FREE char *given = sf_mount_options_given(source, where);
	struct timespec began;
	sigset_t block, ending;
	int r;

	r = make_absolute(&common->session.view.hf_files, err);
	if (r >= 0)
		r = make_absolute(&common->log_file, err);
	if (r >= 0)
		r = make_absolute(&common->session.store.ca_bundle, err);
	if (r >= 0)
		r = sf_mountpoint_prepare(where, &mountpoint, err);
	if (r >= 0)
		r = sf_mountpoint_lock(mountpoint, &d.lock_fd, err);
	if (r < 0)
		return r;
	if (!o->foreground) {
		r = go_to_background(&d, common->session.trace_fd, failed_code);
		if (r < 0)
			return sf_fail(err, r, "cannot go into the background: %s", strerror(-r));
	}
	/* every thread inherits this: signals that end us are read from a descriptor by serve */
	sigemptyset(&block);
	sigaddset(&block, SIGTERM);
	sigaddset(&block, SIGINT);
	sigaddset(&block, SIGHUP);
	ending = block;
	sigaddset(&block, SIGPIPE);
	sigprocmask(SIG_BLOCK, &block, NULL);

	if (o->auto_unmount)
		r = sf_auto_unmount_start(&cleaner, mountpoint, err);
	if (r >= 0)
		r = open_session(&s, &common->session, source, &ending, err);
	if (r < 0)
		return r;
	clock_gettime(CLOCK_REALTIME, &began);
	s.io->counters.began_ns = began.tv_sec * 1000000000LL + began.tv_nsec;
	s.io->counters.given = given;
	sf_mount_notes_make(&d.notes, &s, mountpoint,
	                    !o->nonempty && sf_mountpoint_has_files(mountpoint));
	if (!o->nonempty)
		r = sf_mountpoint_check_source(mountpoint, s.store->source, err);
	if (r >= 0)
		r = sf_mount_options_serve(o, s.store->source, &serve, &fuse_options, err);
	if (r >= 0) {
		serve.mountpoint = mountpoint;
		serve.fuse_options = fuse_options;
		if (!o->foreground) {
			if (chdir("/") < 0)
				r = sf_fail_errno(err, "/");
			if (!common->log_file) {
				openlog("shardfuse", LOG_PID, LOG_DAEMON);
				common->log.write = log_syslog;
			}
		}
	}
	if (r >= 0 && d.ready_fd >= 0 && !end_with_parent(d.parent, SIGTERM))
		r = sf_fail(err, -EINTR, "the command was ended before the mount was there");
	if (r >= 0)
		r = sf_serve(&s, &serve, serving, &d, err);
	sf_prefetch_end(&d.prefetch);
	sf_mount_notes_release(&d.notes);
	sf_session_close(&s);
	return r;
}

static int run_mount(const void *opt, const struct sf_common *given, int argc, char **argv)
{
	struct sf_mount_options o = *(const struct sf_mount_options *)opt;
	/* -o adds to the same lists as the long options: no copy, whose arrays would grow away from
	 * the original's */
	struct sf_common *common = (struct sf_common *)(uintptr_t)given;
	struct sf_error err = SF_ERROR_INIT;
	int code = SF_EXIT_OK;
	(void)argc;

	if (sf_mount_options_apply(&o, common, &err) < 0 ||
	    sf_views_check(&common->session.view, &err) < 0)
		code = sf_cli_error(SF_EXIT_USAGE, &err);
	else if (mount_and_serve(&o, common, argv[0], argv[1], SF_EXIT_FAILED, &err) < 0)
		code = sf_cli_error(SF_EXIT_FAILED, &err);
	sf_mount_options_release(&o);
	free(o.words.at);
	return code;
}

const struct sf_cmd sf_cmd_mount = {
	.name = "mount",
	.usage = "SOURCE MOUNTPOINT [-o NAME[=VALUE],…]",
	.about = "mount a checkpoint as unsharded files (the verb is optional)",
	.example = "shardfuse /ckpt/step1000 /mnt/c && ls /mnt/c\n"
		   "shardfuse umount /mnt/c",
	.options = sf_mount_option_table,
	.words = sf_mount_word_table,
	.common = true,
	.view = true,
	.min_args = 2,
	.max_args = 2,
	.opt_size = sizeof(struct sf_mount_options),
	.run = run_mount,
};

/* mount(8) calls: mount.shardfuse SOURCE DIR [-sfnv] [-o OPTIONS] [-t TYPE]; exit codes are its own
 * (mount(8), 1 and 32). */
int sf_mount_helper(int argc, char **argv)
{
	enum { MOUNT_USAGE = 1, MOUNT_FAILED = 32 };
	struct sf_mount_options o = { 0 };
	struct sf_common common;
	struct sf_error err = SF_ERROR_INIT;
	const char **words = calloc((size_t)argc + 1, sizeof(*words));
	int c, code = MOUNT_FAILED;

	if (!words)
		return MOUNT_FAILED;
	o.words.at = words;
	sf_common_init(&common);
	sf_common_program(&common);
	while ((c = getopt(argc, argv, "sfnvo:t:")) != -1) {
		switch (c) {
		case 's':
			o.sloppy = true;
			break;
		case 'f':
			o.fake = true;
			break;
		case 'v':
		case 'n': /* no mtab: there is none */
		case 't': /* the type has led here */
			break;
		case 'o':
			words[o.words.n++] = optarg;
			break;
		default:
			code = MOUNT_USAGE;
			goto out;
		}
	}
	if (argc - optind != 2) {
		fprintf(stderr, "usage: mount.shardfuse SOURCE MOUNTPOINT [-sfnv] [-o OPTIONS]\n");
		code = MOUNT_USAGE;
		goto out;
	}
	if (sf_mount_options_apply(&o, &common, &err) < 0)
		code = sf_cli_error(MOUNT_USAGE, &err);
	else if (o.fake)
		code = 0;
	else if (mount_and_serve(&o, &common, argv[optind], argv[optind + 1], MOUNT_FAILED, &err) <
	         0)
		sf_cli_error(MOUNT_FAILED, &err);
	else
		code = 0;
out:
	sf_mount_options_release(&o);
	sf_common_release(&common);
	free(words);
	return code;
}
