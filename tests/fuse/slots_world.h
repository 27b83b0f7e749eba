/* A mount of two checkpoints: one is the root, the other a name in it that the test has loaded and
 * left. */
#ifndef SF_TESTS_FUSE_SLOTS_WORLD_H
#define SF_TESTS_FUSE_SLOTS_WORLD_H

#include "fuse/fs_ops.h"
#include "fuse/kernel_init.h"
#include "base/log_limit.h"
#include "base/thread_pool.h"
#include <sys/eventfd.h>
#include "tests/lib/slow_mount.h"

#define SECOND "second"
#define RECEIVERS 3

/* ---- the serving process ---- */

/* What it is told, and tells itself: through one pipe. */
struct order {
	enum { LOAD, LEAVE, FORGET, CLOSE, STOP } what;
	struct sf_session *s; /* CLOSE */
	uint16_t number;      /* FORGET: of a slot that was left */
};

static struct {
	atomic_uint loaded, left, closed; /* so far */
	atomic_uint number;               /* of the slot that was loaded last */
	atomic_uint lines;                /* of the log that tell of a shard */
	atomic_uint lookups, getattrs;    /* that the kernel sent, of any slot */
	char source[4096];                /* to load */
	double timeout;                   /* of what is loaded, seconds */
} * told;

static int orders[2];
static struct sf_fs fs;
static struct fuse_session *se;
static struct {
	pthread_mutex_t m;
	struct sf_slot *slot; /* that the name leads to */
} second = { .m = PTHREAD_MUTEX_INITIALIZER };

static inline void order(int what, struct sf_session *s, uint16_t number)
{
	const struct order o = { .what = what, .s = s, .number = number };

	ck_assert_int_eq(write(orders[1], &o, sizeof(o)), sizeof(o));
}

static inline void lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct sf_slot *slot = NULL;

	atomic_fetch_add(&told->lookups, 1);
	if (parent != FUSE_ROOT_ID || strcmp(name, SECOND) != 0) {
		sf_fs_ops.lookup(req, parent, name);
		return;
	}
	pthread_mutex_lock(&second.m);
	if (second.slot)
		slot = sf_slot_ref(&fs.slots, second.slot);
	pthread_mutex_unlock(&second.m);
	if (slot)
		sf_fs_answer_attr(&fs, req, slot, SF_NODE_ROOT, true);
	else
		fuse_reply_err(req, ENOENT);
	sf_slot_unref(&fs.slots, slot);
}

static inline void getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	atomic_fetch_add(&told->getattrs, 1);
	sf_fs_ops.getattr(req, ino, fi);
}

/* Nobody has it any more. Whoever let it go last may be a read of it that is just ending. */
static inline void given_back(void *arg, struct sf_session *s)
{
	(void)arg;
	order(CLOSE, s, 0);
}

static inline int load(const struct sf_session_options *opt)
{
	struct sf_session *s = calloc(1, sizeof(*s));
	struct sf_error err = SF_ERROR_INIT;
	struct sf_slot *slot;
	int r = s ? sf_session_open(s, opt, told->source, &err) : -ENOMEM;

	if (r >= 0)
		r = sf_slots_add(&fs.slots, s, told->timeout, given_back, NULL, &slot);
	if (r < 0) {
		fprintf(stderr, "%s\n", err.msg);
		return r;
	}
	pthread_mutex_lock(&second.m);
	second.slot = slot;
	pthread_mutex_unlock(&second.m);
	atomic_store(&told->number, slot->number);
	atomic_fetch_add(&told->loaded, 1);
	return 0;
}

/* No name leads there; what the kernel has looked up it forgets, but for what is open. */
static inline void leave(void)
{
	struct sf_slot *slot;

	pthread_mutex_lock(&second.m);
	slot = second.slot;
	second.slot = NULL;
	pthread_mutex_unlock(&second.m);
	fuse_lowlevel_notify_inval_entry(se, FUSE_ROOT_ID, SECOND, strlen(SECOND));
	sf_slots_leave(&fs.slots, slot);
	sf_slot_unref(&fs.slots, slot);
	atomic_fetch_add(&told->left, 1);
}

static inline void *receive(void *arg)
{
	struct fuse_buf buf = { 0 };
	int n;

	(void)arg;
	while ((n = fuse_session_receive_buf(se, &buf)) > 0 || n == -EINTR || n == -EAGAIN) {
		if (n > 0) {
			fuse_session_process_buf(se, &buf);
			sf_fs_answer_interrupted(&fs);
		}
	}
	free(buf.mem);
	return NULL;
}

static inline void log_line(void *arg, enum sf_log_level level, const char *line)
{
	(void)arg, (void)level;
	if (strstr(line, "read of"))
		atomic_fetch_add(&told->lines, 1);
}

/* Until STOP, which comes when the mount is gone. */
static inline int obey(const struct sf_session_options *opt)
{
	struct order o;
	int r = 0;

	while (r >= 0 && read(orders[0], &o, sizeof(o)) == sizeof(o) && o.what != STOP) {
		if (o.what == LOAD)
			r = load(opt);
		else if (o.what == LEAVE)
			leave();
		else if (o.what == FORGET) /* names below what was open stay in its cache */
			fuse_lowlevel_notify_inval_entry(
				se, (uint64_t)o.number << SF_NODE_BITS | SF_NODE_ROOT, "state", 5);
		else {
			sf_session_close(o.s);
			free(o.s);
			atomic_fetch_add(&told->closed, 1);
		}
	}
	return r;
}

static inline int mount_them(void)
{
	struct fuse_args args = FUSE_ARGS_INIT(0, NULL);
	struct fuse_lowlevel_ops ops = sf_fs_ops;
	struct sf_error err = SF_ERROR_INIT;

	ops.lookup = lookup;
	ops.getattr = getattr;
	fuse_opt_add_arg(&args, "test");
	fuse_opt_add_arg(&args, "-oro,nosuid,nodev,subtype=shardfuse,fsname=slots");
	fuse_opt_add_arg(&args, "-o" SF_FS_MAX_READ_OPTION);
	se = fuse_session_new(&args, &ops, sizeof(ops), &fs);
	fuse_opt_free_args(&args);
	if (!se || fuse_session_mount(se, mountpoint) != 0)
		return -EIO;
	return sf_kernel_init_hook(&fs, se, &err);
}

static inline void close_root(void *arg, struct sf_session *s)
{
	(void)arg;
	sf_session_close(s);
}

static inline int serve_slots(const char *root_source, int ready_fd)
{
	static const struct sf_log log = { .write = log_line, .level = SF_LOG_ERROR };
	struct sf_session_options opt;
	struct sf_error err = SF_ERROR_INIT;
	pthread_t id[RECEIVERS];
	struct sf_session root;
	struct sf_slot *slot;
	struct order o;
	uint64_t one;
	struct sf_io io;
	int r;

	sf_session_options_init(&opt);
	opt.log = &log;
	opt.threads = 4;
	if (sf_session_io(&io, &opt, &err) < 0)
		return 1;
	opt.io = &io;
	fs.io = &io;
	pthread_mutex_init(&fs.locked.m, NULL);
	pthread_cond_init(&fs.locked.c, NULL);
	sf_open_table_init(&fs.open);
	sf_slots_init(&fs.slots);
	fs.ready_fd = eventfd(0, EFD_CLOEXEC);
	r = sf_session_open(&root, &opt, root_source, &err);
	if (r >= 0)
		r = sf_slots_add(&fs.slots, &root, SF_FS_FOREVER, close_root, NULL, &slot);
	if (r >= 0)
		r = sf_log_limit_new(io.log, 3600000, 64, &io.failures, &err);
	if (r >= 0)
		r = sf_thread_pool_new(2, &fs.sizers, &err);
	if (r >= 0)
		r = mount_them();
	if (r < 0) {
		fprintf(stderr, "%s\n", err.msg);
		return 1;
	}
	for (int i = 0; i < RECEIVERS; i++)
		pthread_create(&id[i], NULL, receive, NULL);
	if (read(fs.ready_fd, &one, sizeof(one)) == sizeof(one))
		ready(&ready_fd);
	r = obey(&opt);
	for (int i = 0; i < RECEIVERS; i++)
		pthread_join(id[i], NULL);

	sf_fs_drain(&fs);
	atomic_store(&fs.closed, true);
	fuse_session_unmount(se);
	sf_fs_wait(&fs);
	sf_thread_pool_free(fs.sizers);
	sf_fs_answer_interrupted(&fs);
	sf_fs_free_handles(&fs);
	fuse_session_destroy(se);
	sf_slots_release(&fs.slots); /* the second's, if it is still there, to the pipe */
	close(orders[1]);
	while (read(orders[0], &o, sizeof(o)) == sizeof(o)) {
		sf_session_close(o.s);
		free(o.s);
	}
	sf_log_limit_free(io.failures);
	sf_open_table_release(&fs.open);
	close(fs.ready_fd);
	sf_io_release(&io);
	return r < 0;
}

/* ---- the test ---- */

#define TENSOR "state/model/layers/0/attention/wq/weight/tensor.raw"

static char copies[2][300]; /* of one checkpoint; the second's tensor has other bytes */

static inline void await(const atomic_uint *n, unsigned want)
{
	while (atomic_load(n) < want)
		usleep(200);
	ck_assert_uint_eq(atomic_load(n), want);
}

static inline const char *in_mount(const char *dir, const char *name)
{
	static char path[4096];

	snprintf(path, sizeof(path), "%s%s%s/%s", mountpoint, *dir ? "/" : "", dir, name);
	return path;
}

/* What a file has, into @buf; the length. */
static inline ssize_t contents(const char *path, uint8_t *buf, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	ck_assert_msg(fd >= 0, "%s: %s", path, strerror(errno));
	n = pread(fd, buf, size, 0);
	ck_assert_msg(n >= 0, "%s: %s", path, strerror(errno));
	close(fd);
	return n;
}

/* Turns some bytes of the tensor over where they are stored, whichever file that is. */
static inline void spoil(const char *dir, const uint8_t *bytes, size_t len)
{
	static uint8_t all[1 << 20];
	struct dirent *e;
	unsigned found = 0;
	char path[1024];
	DIR *d = opendir(dir);

	ck_assert_ptr_nonnull(d);
	while ((e = readdir(d))) {
		size_t n;
		uint8_t *at;
		if (!strstr(e->d_name, ".distcp"))
			continue;
		snprintf(path, sizeof(path), "%s/%s", dir, e->d_name);
		FILE *f = fopen(path, "r+");
		ck_assert_ptr_nonnull(f);
		n = fread(all, 1, sizeof(all), f);
		at = memmem(all, n, bytes, len);
		if (at) {
			for (size_t i = 0; i < len; i++)
				at[i] ^= 0xff;
			fseek(f, at - all, SEEK_SET);
			ck_assert_uint_eq(fwrite(at, 1, len, f), len);
			found++;
		}
		fclose(f);
	}
	closedir(d);
	ck_assert_uint_eq(found, 1);
}

/* Both copies. @want: the tensor's file in each. Returns its length. */
static inline size_t make_copies(uint8_t want[2][4096])
{
	struct sf_session_options opt;
	struct sf_error err = SF_ERROR_INIT;
	char from[4096], cmd[8192];
	size_t len = 0;

	sf_session_options_init(&opt);
	for (int i = 0; i < 2; i++) {
		struct sf_session s;
		struct sf_vfile *file;
		sf_node node;
		snprintf(copies[i], sizeof(copies[i]), "%s/sf-slot-XXXXXX", slow_tmp());
		ck_assert_ptr_nonnull(mkdtemp(copies[i]));
		snprintf(cmd, sizeof(cmd), "cp -r '%s'/. '%s'",
		         sf_test_data(from, "dcp/fsdp4/ckpt"), copies[i]);
		ck_assert_int_eq(system(cmd), 0);
		if (i)
			spoil(copies[i], want[0] + len - 16, 16);
		ck_assert_msg(sf_session_open(&s, &opt, copies[i], &err) == 0, "%s", err.msg);
		ck_assert_int_eq(sf_tree_walk(s.tree, TENSOR, true, &node, &err), 0);
		ck_assert_int_eq(sf_tree_open(s.tree, node, &file, &err), 0);
		uint64_t size;
		ck_assert_int_eq(sf_vfile_size(file, &size), 0);
		ck_assert_uint_le(size, 4096);
		len = size;
		struct sf_read rd = {
			.emit = sf_vfile_emit, .arg = file, .len = len, .buf = want[i]
		};
		ck_assert_msg(sf_read_wait(s.reader, &rd) == 0, "%s", rd.err.msg);
		sf_read_release(&rd);
		sf_vfile_unref(file);
		sf_session_close(&s);
	}
	ck_assert_mem_ne(want[0], want[1], len);
	return len;
}

static inline void drop_copies(void)
{
	char cmd[800];

	snprintf(cmd, sizeof(cmd), "rm -rf '%s' '%s'", copies[0], copies[1]);
	ck_assert_int_eq(system(cmd), 0);
}

static inline void start_slots(const char *root_source)
{
	int fd[2];
	char byte;

	told = mmap(NULL, sizeof(*told), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	told->timeout = SF_FS_FOREVER;
	snprintf(mountpoint, sizeof(mountpoint), "%s/sf-test-XXXXXX", slow_tmp());
	ck_assert_ptr_nonnull(mkdtemp(mountpoint));
	ck_assert_int_eq(pipe2(fd, O_CLOEXEC), 0);
	ck_assert_int_eq(pipe2(orders, O_CLOEXEC), 0);
	server = fork();
	if (server == 0) {
		close(fd[0]);
		exit(serve_slots(root_source, fd[1])); /* a sanitizer looks for leaks then */
	}
	close(fd[1]);
	ck_assert_msg(read(fd[0], &byte, 1) == 1, "the mount did not come up");
	close(fd[0]);
	close(orders[0]);
}

static inline void stop_slots(void)
{
	int status = -1;

	ck_assert_int_eq(sf_mountpoint_unmount(mountpoint, true, NULL), 0);
	order(STOP, NULL, 0);
	close(orders[1]);
	waitpid(server, &status, 0);
	server = 0;
	ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %x", status);
	rmdir(mountpoint);
}

static inline void load_second(const char *source)
{
	unsigned n = atomic_load(&told->loaded);

	snprintf(told->source, sizeof(told->source), "%s", source);
	order(LOAD, NULL, 0);
	await(&told->loaded, n + 1);
}

static inline void leave_second(void)
{
	unsigned n = atomic_load(&told->left);

	order(LEAVE, NULL, 0);
	await(&told->left, n + 1);
}

static inline void check_tensor(const char *dir, const uint8_t *want, size_t len)
{
	uint8_t got[8192];

	ck_assert_int_eq(contents(in_mount(dir, TENSOR), got, sizeof(got)), len);
	ck_assert_mem_eq(got, want, len);
}

struct old_handle {
	struct file_handle h;
	unsigned char bytes[128];
};

/* As an NFS server keeps it. */
static inline void take_handle(const char *path, struct old_handle *h)
{
	int id;

	h->h.handle_bytes = sizeof(h->bytes);
	ck_assert_msg(name_to_handle_at(AT_FDCWD, path, &h->h, &id, 0) == 0, "%s", strerror(errno));
}

/* What opening it gives: 0 or errno. */
static inline int open_handle(struct old_handle *h, uint8_t *buf, size_t size, ssize_t *ret)
{
	int dir = open(mountpoint, O_RDONLY | O_DIRECTORY | O_CLOEXEC), fd, code;

	ck_assert_int_ge(dir, 0);
	fd = open_by_handle_at(dir, &h->h, O_RDONLY | O_CLOEXEC);
	code = fd < 0 ? errno : 0;
	*ret = fd < 0 ? -1 : pread(fd, buf, size, 0);
	if (fd >= 0)
		close(fd);
	close(dir);
	return code;
}

#endif
