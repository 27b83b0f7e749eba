/* The caller's own memory and copies, as a device: shardfuse_staging. */
#include "config.h"

#include <errno.h>
#include <string.h>

#include "base/growing.h"
#include "base/mem.h"
#include "save/device_caller.h"

struct caller {
	struct sf_device d; /* first */
	struct shardfuse_staging hooks;
};

static const struct caller *caller_of(const struct sf_device *d)
{
	return (const struct caller *)d;
}

static void *caller_alloc(const struct sf_device *d, size_t len)
{
	const struct caller *c = caller_of(d);

	return c->hooks.alloc ? c->hooks.alloc(c->hooks.arg, len)
	                      : sf_device_host()->alloc(sf_device_host(), len);
}

static void caller_free(const struct sf_device *d, void *at, size_t len)
{
	const struct caller *c = caller_of(d);

	if (c->hooks.alloc)
		c->hooks.release(c->hooks.arg, at, len);
	else
		sf_device_host()->free(sf_device_host(), at, len);
}

/* What a hook says. */
static int told(int r, struct shardfuse_error *why, const char *hook, struct sf_error *err)
{
	if (r >= 0)
		return 0;
	why->msg[sizeof(why->msg) - 1] = 0;
	return sf_fail(err, r, "staging hook %s: %s", hook, why->msg[0] ? why->msg : strerror(-r));
}

static int caller_wait(const struct sf_device *d, void *copy, struct sf_error *err)
{
	const struct caller *c = caller_of(d);
	struct shardfuse_error why = { "" };

	return told(c->hooks.sync ? c->hooks.sync(c->hooks.arg, copy, &why) : 0, &why, "sync", err);
}

/* Of several rows one copy can be on its way: the one before is waited for. */
static int caller_copy(const struct sf_device *d, const struct sf_device_rows *rows, size_t n,
                       void *stream, void **copy, struct sf_error *err)
{
	const struct caller *c = caller_of(d);
	struct shardfuse_error why = { "" };
	void *last = NULL;
	int r = 0;

	for (size_t i = 0; i < n && r >= 0; i++) {
		void *next = NULL;
		r = told(c->hooks.stage(c->hooks.arg, rows[i].to, rows[i].from, rows[i].run,
		                        rows[i].step, rows[i].n, stream, &next, &why),
		         &why, "stage", err);
		if (last) {
			int w = caller_wait(d, last, r < 0 ? NULL : err);
			r = r < 0 ? r : w;
			last = NULL;
		}
		if (r >= 0)
			last = next;
		else if (next)
			(void)caller_wait(d, next, NULL);
	}
	if (r < 0 || !last)
		return r;
	*copy = last; /* beside the one before, which is waited for by itself */
	return 0;
}

int sf_device_caller_new(const struct shardfuse_staging *given, struct sf_arena *arena,
                         const struct sf_device **ret, struct sf_error *err)
{
	struct caller *c = sf_arena_alloc(arena, sizeof(*c));
	int r;

	if (!c)
		return sf_fail(err, -ENOMEM, "no memory for staging hooks");
	r = sf_public_take(given, &c->hooks, sizeof(c->hooks), err);
	if (r < 0)
		return r;
	if (!c->hooks.stage)
		return sf_fail(err, -EINVAL, "staging hooks without stage");
	if (!c->hooks.alloc != !c->hooks.release)
		return sf_fail(err, -EINVAL, "staging hooks with only one of alloc and release");
	c->d = (struct sf_device){ .name = "the caller's",
		                   .alloc = caller_alloc,
		                   .free = caller_free,
		                   .copy = caller_copy,
		                   .wait = caller_wait,
		                   .passing = true };
	*ret = &c->d;
	return 0;
}
