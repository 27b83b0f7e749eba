#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/path.h"
#include "parse/tar.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Any bytes as an archive, in windows as the first of them says: members lie inside, in order, and do
 * not depend on the windows. */
static int parse(const uint8_t *p, size_t len, size_t step, struct sf_tar *t,
                 struct sf_arena *arena)
{
	struct sf_error err = SF_ERROR_INIT;
	int r = 1;

	sf_tar_init(t, len, arena);
	while (r > 0) {
		const uint64_t left = t->at < len ? len - t->at : 0, before = t->at;
		const size_t n = (size_t)SF_MIN(SF_MAX(t->want, (uint64_t)step), left);
		r = sf_tar_take(t, p + (left ? t->at : 0), n, &err);
		if (r > 0 && t->at == before)
			abort(); /* it would never end */
	}
	if ((r < 0) != (err.msg[0] != '\0'))
		abort();
	return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sf_arena a = { .limit = 64 << 20 }, b = { .limit = 64 << 20 };
	struct sf_tar t, u;
	int r, s;

	if (!size)
		return 0;
	r = parse(data + 1, size - 1, (size_t)data[0] * 64, &t, &a);
	s = parse(data + 1, size - 1, size, &u, &b);
	if (r != s || (r == 0 && t.member.n != u.member.n))
		abort();
	for (size_t i = 0; r == 0 && i < t.member.n; i++) {
		const struct sf_tar_member *m = &t.member.at[i];
		if (m->off > size - 1 || m->size > size - 1 - m->off ||
		    sf_path_check(m->name, strlen(m->name), NULL) < 0 ||
		    (i && strcmp(m[-1].name, m->name) >= 0) ||
		    strcmp(m->name, u.member.at[i].name) != 0 || m->off != u.member.at[i].off)
			abort();
	}
	sf_tar_release(&t);
	sf_tar_release(&u);
	sf_arena_release(&a);
	sf_arena_release(&b);
	return 0;
}
