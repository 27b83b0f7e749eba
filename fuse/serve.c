#include "config.h"
#include <time.h>
#include <string.h>
#include <stdio.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/mem.h"
#include "base/buf.h"
#include "base/log_limit.h"
#include "fuse/fs_ops.h"
#include "fuse/kernel_init.h"
#include "fuse/mountpoint.h"
#include "fuse/serve.h"
#include "fuse/steps.h"

#define THREADS_MAX 64
#define SIZERS 4
#define RUN_TIMEOUT_S 1 /* of names in a run directory: they come and go */

/* libfuse prints what went wrong; we want it in our message. Only used while mounting, by one
 * thread. */
static __thread struct sf_buf *fuse_said;

__attribute__((format(printf, 2, 0))) static void catch_fuse_log(enum fuse_log_level level,
                                                                 const char *fmt, va_list ap)
{
	char line[512];
	vsnprintf(line, sizeof(line), fmt, ap);
	if (fuse_said && level <= FUSE_LOG_ERR)
		sf_buf_str(fuse_said, line);
	else if (!fuse_said)
		fputs(line, stderr); /* -d */
}

struct workers {
	struct fuse_session *se;
	struct sf_fs *fs;
	pthread_t thread[THREADS_MAX];
	unsigned n;
	int ended_fd; /* a byte per thread that ended: the filesystem was unmounted */
};

static void *worker(void *arg)
{
	struct workers *w = arg;
	struct fuse_buf buf = { 0 };
	uint64_t one = 1;

	while (!fuse_session_exited(w->se)) {
		int n = fuse_session_receive_buf(w->se, &buf);
		if (n == -EINTR || n == -EAGAIN)
			continue;
		if (n <= 0)
			break; /* unmounted (ENODEV) or aborted */
		fuse_session_process_buf(w->se, &buf);
		sf_fs_answer_interrupted(w->fs);
	}
	free(buf.mem);
	ssize_t done = write(w->ended_fd, &one, sizeof(one));
	(void)done;
	return NULL;
}

static void wake(int sig)
{
	(void)sig; /* only to end a read of the device with EINTR */
}

static int start_workers(struct workers *w, unsigned n, struct sf_error *err)
{
	struct sigaction sa = { .sa_handler = wake };

	sigemptyset(&sa.sa_mask);
	sigaction(SIGUSR2, &sa, NULL);
	w->n = 0;
	for (unsigned i = 0; i < n; i++, w->n++) {
		int r = pthread_create(&w->thread[i], NULL, worker, w);
		if (r != 0 && i == 0)
			return sf_fail(err, -r, "cannot start a thread: %s", strerror(r));
		if (r != 0)
			break; /* fewer do as well */
	}
	return 0;
}

/* The threads sit in read(2) of the device, which a lazy unmount with files still open does not
 * end. */
static void stop_workers(struct workers *w)
{
	fuse_session_exit(w->se);
	for (unsigned i = 0; i < w->n; i++) {
		struct timespec until;
		do {
			pthread_kill(w->thread[i], SIGUSR2);
			until = sf_until_ms(CLOCK_REALTIME, 5);
		} while (pthread_timedjoin_np(w->thread[i], NULL, &until) != 0);
	}
}

/* Until somebody asks us to stop or the mount is gone. Was it ever ready? */
static bool wait_for_end(struct sf_fs *fs, struct workers *w, int signal_fd,
                         const struct sf_serve_options *o, void (*ready)(void *arg), void *arg)
{
	struct pollfd p[3] = {
		{ .fd = signal_fd, .events = POLLIN },
		{ .fd = w->ended_fd, .events = POLLIN },
		{ .fd = fs->ready_fd, .events = POLLIN },
	};
	bool was_ready = false;

	int look_ms = (int)SF_MIN(fs->size_timeout_s, 1000u) * 500, n;
	while ((n = poll(p, 3, look_ms ? look_ms : -1)) <= 0 ||
	       !((p[0].revents | p[1].revents) & POLLIN)) {
		if (n <= 0) {
			sf_fs_answer_late(fs);
			continue;
		}
		if (p[2].revents & POLLIN) {
			p[2].fd = -1;
			if (fs->readahead)
				sf_mountpoint_readahead(o->mountpoint,
				                        (unsigned)(fs->readahead >> 10));
			ready(arg);
			was_ready = true;
		}
		p[2].revents = 0;
	}
	return was_ready || (p[0].revents & POLLIN);
}

/*
 * Every read ends by its deadline, --timeout; who waits for a size is answered long before the
 * kernel gives us up, which aborts the whole mount. Its time is for a daemon that is stopped or
 * stuck, and counts from a request's making: thousands may queue in the kernel behind a store that
 * does not answer, 256 at a time.
 */
static void set_timeouts(struct sf_fs *fs, const struct sf_serve_options *o)
{
	unsigned read_s = (fs->io->timeout_ms + 999) / 1000;

	if (!read_s)
		return; /* no deadlines are wanted */
	fs->request_timeout_s = SF_MAX(SF_MIN(read_s, 2000u) * 30, 1800u);
	fs->size_timeout_s = o->size_timeout_s ? o->size_timeout_s : fs->request_timeout_s / 2;
}

/* One mount from its first thing to its last. */
struct serving {
	struct sf_fs fs;
	struct workers w;
	struct fuse_args args;
	struct sf_buf said; /* what libfuse printed while mounting */
	int signal_fd;
	bool mounted;
};

/* Of a server: a program that maps a file and touches a page of each tensor pays for as much around each
 * of them; one that takes 256 KiB somewhere waits for one round trip, where the kernel's own 128 KiB make
 * it three. */
#define FAR_READAHEAD (UINT64_C(512) << 10)

/* Of local disks as much as one request brings. */
static uint64_t kernel_readahead(const struct sf_session *s, const struct sf_serve_options *o)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);

	if (o->readahead)
		return SF_MIN(SF_MAX(o->readahead, page), UINT64_C(64) << 20);
	return s->store->far ? FAR_READAHEAD : SF_FS_MAX_READ;
}

static int begin(struct serving *v, struct sf_session *s, const struct sf_serve_options *o,
                 struct sf_error *err)
{
	struct sf_slot *root; /* the mount's end lets it go */
	sigset_t ending;

	*v = (struct serving){
		.fs = { .io = s->io,
		        .uid = o->uid,
		        .gid = o->gid,
		        .umask = o->umask,
		        .readahead = kernel_readahead(s, o) },
		.w = { .fs = &v->fs },
		.args = FUSE_ARGS_INIT(0, NULL),
		.said = { .limit = 4096 },
	};
	pthread_mutex_init(&v->fs.locked.m, NULL);
	pthread_cond_init(&v->fs.locked.c, NULL);
	sf_open_table_init(&v->fs.open);
	sf_slots_init(&v->fs.slots);
	set_timeouts(&v->fs, o);
	/* without memory for it all lines are written */
	sf_log_limit_new(s->io->log, SF_LOG_LIMIT_MS, SF_LOG_LIMIT_KEYS, &s->io->failures, NULL);
	sigemptyset(&ending);
	sigaddset(&ending, SIGTERM);
	sigaddset(&ending, SIGINT);
	sigaddset(&ending, SIGHUP);
	v->fs.ready_fd = eventfd(0, EFD_CLOEXEC);
	v->w.ended_fd = eventfd(0, EFD_CLOEXEC);
	v->signal_fd = signalfd(-1, &ending, SFD_CLOEXEC);
	if (v->fs.ready_fd < 0 || v->w.ended_fd < 0 || v->signal_fd < 0)
		return sf_fail_errno(err, "cannot set up the event loop");
	if (sf_slots_add(&v->fs.slots, s, s->run ? RUN_TIMEOUT_S : SF_FS_FOREVER, NULL, NULL,
	                 &root) < 0)
		return sf_fail(err, -ENOMEM, "no memory for a mount");
	if (sf_steps_begin(&v->fs, s, err) < 0)
		return -ENOMEM;
	return sf_thread_pool_new(SIZERS, &v->fs.sizers, err);
}

static int mount_session(struct serving *v, const struct sf_serve_options *o, struct sf_error *err)
{
	struct sf_buf *said = &v->said;
	int r;

	fuse_set_log_func(catch_fuse_log);
	fuse_said = said;
	/* max_read: libfuse wants the option and the init operation to say the same */
	if (fuse_opt_add_arg(&v->args, "shardfuse") == 0 && fuse_opt_add_arg(&v->args, "-o") == 0 &&
	    fuse_opt_add_arg(&v->args, o->fuse_options) == 0 &&
	    fuse_opt_add_arg(&v->args, "-o" SF_FS_MAX_READ_OPTION) == 0 &&
	    (!o->debug || fuse_opt_add_arg(&v->args, "-d") == 0))
		v->w.se = fuse_session_new(&v->args, &sf_fs_ops, sizeof(sf_fs_ops), &v->fs);
	if (v->w.se && fuse_session_mount(v->w.se, o->mountpoint) == 0) {
		v->mounted = true;
		r = sf_kernel_init_hook(&v->fs, v->w.se, err);
	} else {
		sf_buf_cstr(said);
		while (said->len && said->at[said->len - 1] == '\n')
			said->at[--said->len] = 0;
		r = sf_fail(
			err, -EIO,
			"cannot mount on '%.300s': %.500s (shardfuse doctor says how to fix it)",
			o->mountpoint, said->len ? (char *)said->at : "fusermount3 says why above");
	}
	fuse_said = NULL;
	return r;
}

static int serve_until_end(struct serving *v, const struct sf_serve_options *o,
                           void (*ready)(void *arg), void *arg, struct sf_error *err)
{
	unsigned cores = (unsigned)SF_MAX(sysconf(_SC_NPROCESSORS_ONLN), 1L);
	unsigned n = o->threads ? o->threads : SF_MIN(SF_MAX(cores * 2, 4u), 16u);
	int r = start_workers(&v->w, SF_MIN(n, (unsigned)THREADS_MAX), err);

	if (r < 0)
		return r;
	if (!wait_for_end(&v->fs, &v->w, v->signal_fd, o, ready, arg))
		r = sf_fail(err, -EIO, "cannot mount on '%s': the kernel and libfuse did not agree",
		            o->mountpoint);
	/*
	 * Answer what waits, let the threads go, and only then unmount: that closes the device
	 * under their feet. What came after the drain was not parked (ending is set), and the
	 * kernel fails what it still holds. Sizing can only be waited for: after.
	 */
	sf_fs_drain(&v->fs);
	stop_workers(&v->w);
	return r;
}

static void end(struct serving *v)
{
	struct sf_fs *fs = &v->fs;

	atomic_store(&fs->closed, true);
	sf_io_stop(fs->io); /* what is being sized */
	if (v->mounted)
		fuse_session_unmount(v->w.se);
	sf_fs_wait(fs);
	sf_steps_end(fs);
	sf_thread_pool_free(fs->sizers);
	sf_fs_answer_interrupted(fs);
	sf_fs_free_handles(fs);
	sf_log_limit_free(fs->io->failures);
	fs->io->failures = NULL;
	if (v->w.se)
		fuse_session_destroy(v->w.se);
	fuse_opt_free_args(&v->args);
	sf_buf_release(&v->said);
	close(v->signal_fd);
	close(v->w.ended_fd);
	close(fs->ready_fd);
	sf_slots_release(&fs->slots);
	sf_thread_pool_free(fs->closers);
	sf_open_table_release(&fs->open);
	pthread_cond_destroy(&fs->locked.c);
	pthread_mutex_destroy(&fs->locked.m);
}

int sf_serve(struct sf_session *s, const struct sf_serve_options *o, void (*ready)(void *arg),
             void *arg, struct sf_error *err)
{
	struct serving v;
	int r = begin(&v, s, o, err);

	if (r >= 0)
		r = mount_session(&v, o, err);
	if (r >= 0)
		r = serve_until_end(&v, o, ready, arg, err);
	end(&v);
	return r;
}
