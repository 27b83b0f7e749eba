#include "config.h"
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>
#include "base/iov.h"
#include "tool/copy_out.h"

enum { WINDOW = 4 << 20, AHEAD = 4 }; /* bytes of a read, and how many are under way */

/* One read of the window; done is set by whoever completes it. */
struct slot {
	struct sf_read rd;
	struct copy *copy;
	bool used, done;
	int r;
};
struct copy {
	struct slot slot[AHEAD];
	pthread_mutex_t m;
	pthread_cond_t c;
};

static void completed(struct sf_read *rd, int r)
{
	struct slot *s = rd->priv;
	struct copy *c = s->copy;

	pthread_mutex_lock(&c->m);
	s->r = r;
	s->done = true;
	pthread_cond_broadcast(&c->c);
	pthread_mutex_unlock(&c->m);
}

static int write_all(int fd, struct iovec *iov, int n, struct sf_error *err)
{
	int r = sf_writev_all(fd, iov, n);

	if (r == -EFAULT)
		return sf_fail(err, -ESTALE, "a shard was truncated while it was read");
	return r < 0 ? sf_fail(err, r, "write: %s", strerror(-r)) : 0;
}

int sf_copy_out(struct sf_session *s, struct sf_vfile *file, int fd, struct sf_error *err)
{
	return sf_copy_out_some(s, file, file->size, fd, err);
}

int sf_copy_out_some(struct sf_session *s, struct sf_vfile *file, uint64_t size, int fd,
                     struct sf_error *err)
{
	struct copy c = { .m = PTHREAD_MUTEX_INITIALIZER, .c = PTHREAD_COND_INITIALIZER };
	uint64_t next = 0;
	unsigned head = 0;
	int r = 0;

	for (;;) {
		/* keep the window full; stop starting new reads after a failure */
		for (unsigned i = 0; r >= 0 && i < AHEAD && next < size; i++) {
			struct slot *t = &c.slot[(head + i) % AHEAD];
			if (t->used)
				continue;
			uint64_t len = size - next < WINDOW ? size - next : WINDOW;
			*t = (struct slot){ .copy = &c, .used = true };
			t->rd = (struct sf_read){ .emit = sf_vfile_emit,
				                  .arg = file,
				                  .off = next,
				                  .len = len,
				                  .done = completed,
				                  .priv = t };
			next += len;
			int now = sf_read_start(s->reader, &t->rd);
			if (now == -EAGAIN) {
				sf_read_park(s->reader, &t->rd);
			} else {
				t->r = now;
				t->done = true;
			}
		}
		struct slot *t = &c.slot[head];
		if (!t->used)
			break;
		pthread_mutex_lock(&c.m);
		while (!t->done)
			pthread_cond_wait(&c.c, &c.m);
		pthread_mutex_unlock(&c.m);
		if (r >= 0 && t->r < 0) {
			r = t->r;
			sf_fail(err, r, "%s", t->rd.err.msg);
		}
		if (r >= 0)
			r = write_all(fd, t->rd.iov, t->rd.niov, err);
		sf_read_release(&t->rd);
		t->used = false;
		head = (head + 1) % AHEAD;
	}
	return r;
}
