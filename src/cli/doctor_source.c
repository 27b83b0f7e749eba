#include "config.h"
#include <string.h>
#include "base/mem.h"
#include "catalog/catalog.h"
#include "cli/doctor_advice.h"
#include "cli/doctor_source.h"
#include "format/format.h"
#include "format/inside/inside.h"
#include "store/url.h"

enum { NAMES_MOST = 63 };

/* What one or the other format looks for first. */
static void name_files(const char *names[NAMES_MOST + 1])
{
	const struct sf_format *f;
	size_t n = 0;

	for (size_t i = 0; (f = sf_format_at(i)); i++)
		for (const char *const *at = f->names; *at && n < NAMES_MOST; at++)
			names[n++] = *at;
	names[n] = NULL;
}

/* The checkpoint there, as a mount would open it. */
static bool try_it(const struct sf_session_options *opt, struct sf_io *io, const char *source,
                   const struct sf_probe *p)
{
	struct sf_session_options o = *opt;
	struct sf_error err = SF_ERROR_INIT;
	SF_FREE char *remedy = NULL;
	struct sf_session s;
	bool opened;
	int r;

	o.io = io;
	r = sf_session_store(&s, &o, source, &err);
	if (r == -ENOSPC && sf_url_scheme(source)) { /* nothing is kept here: a mount would */
		sf_probe_say(p, SF_PROBE_OK, "checkpoint", NULL,
		             "a packed file, which is unpacked into the cache when it is opened: "
		             "not looked into");
		return true;
	}
	opened = r >= 0;
	if (opened)
		r = sf_session_load(&s, &err);
	if (r < 0) {
		remedy = sf_doctor_advice(source, opened, r, err.msg);
		sf_probe_say(p, SF_PROBE_BAD, opened ? "checkpoint" : "source", remedy, "%s",
		             err.msg);
		return false;
	}
	sf_probe_say(p, SF_PROBE_OK, "checkpoint", NULL, "%u keys in %u files", s.ckpt->nkeys,
	             s.ckpt->nfiles);
	sf_session_close(&s);
	return true;
}

bool sf_doctor_source(const struct sf_session_options *opt, const char *source,
                      void (*say)(void *arg, enum sf_probe_state state, const char *what,
                                  const char *found, const char *remedy),
                      void *arg)
{
	struct sf_session_options o = *opt;
	const char *names[NAMES_MOST + 1];
	struct sf_probe p = { .say = say, .arg = arg, .names = names };
	struct sf_error err = SF_ERROR_INIT;
	SF_FREE char *dir = NULL;
	struct sf_io io;
	bool fine;

	name_files(names);
	/* what is kept would hide what a server says now */
	if (sf_url_scheme(source)) {
		o.store.cache_size = 0;
		o.store.cache_size_given = true;
		o.store.cache_dir = NULL;
	}
	if (sf_session_io(&io, &o, &err) < 0) {
		sf_probe_say(&p, SF_PROBE_BAD, "system", "ulimit -a shows the limits", "%s",
		             err.msg);
		return false;
	}
	if (sf_inside_dir(source, &dir, &err) < 0)
		dir = NULL; /* what opens it says why */
	fine = sf_store_probe(&io, dir ? dir : source, &o.store, &p) && try_it(&o, &io, source, &p);
	sf_io_release(&io);
	return fine;
}
