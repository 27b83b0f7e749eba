/*
 * Writes objects of a store, for the interop tests to read back:
 *   tool_upload URL put NAME FILE           one request
 *   tool_upload URL write NAME FILE         in pieces of all sizes, in no order; the size is known
 *   tool_upload URL stream NAME FILE        the same, the size is not known
 *   tool_upload URL begin NAME FILE         the same, and the program ends before the object does
 *   tool_upload URL drop NAME FILE          the same, and the object is given up
 *   tool_upload URL remove NAME…
 *   tool_upload URL sweep PREFIX            what is unfinished below it
 * "put", "write" and "stream" print the object's ETag. PART_BYTES: of a part, at least. CREATE=1: nothing is replaced.
 * Exits with 1 and says why where it fails.
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "store/upload_priv.h"

static struct sf_io io;
static struct sf_error err;

static void must(int r)
{
	if (r >= 0)
		return;
	fprintf(stderr, "tool_upload: %d %s\n", -r, err.msg);
	exit(1);
}

static uint8_t *read_file(const char *path, size_t *ret_len)
{
	FILE *f = fopen(path, "rb");
	uint8_t *at;
	long n = 0;

	if (!f || fseek(f, 0, SEEK_END) || (n = ftell(f)) < 0 || fseek(f, 0, SEEK_SET))
		must(sf_fail_errno(&err, "%s", path));
	at = malloc((size_t)n + 1);
	if (!at || fread(at, 1, (size_t)n, f) != (size_t)n)
		must(sf_fail(&err, -EIO, "%s cannot be read", path));
	fclose(f);
	*ret_len = (size_t)n;
	return at;
}

/* [from, to) in two halves, the second first, down to a few KB. */
static void write_halves(struct sf_upload *up, const uint8_t *at, size_t from, size_t to)
{
	size_t half = from + (to - from) / 2 + (to - from) / 7;

	if (to - from < 100000) {
		must(sf_upload_write(up, from, at + from, to - from, &err));
		return;
	}
	write_halves(up, at, half, to);
	write_halves(up, at, from, half);
}

static void write_it(struct sf_uploads *u, const char *how, const char *name, const uint8_t *at,
                     size_t len, enum sf_upload_if when)
{
	const bool known = strcmp(how, "stream") != 0;
	const struct sf_upload_options o = { .size = known ? len : 0, .when = when };
	struct sf_upload *up;
	char *etag = NULL;
	int r;

	must(sf_upload_begin(u, name, &o, &up, &err));
	/* the second half in order, as most do */
	write_halves(up, at, 0, len / 2);
	for (size_t off = len / 2; off < len; off += 1 << 20)
		must(sf_upload_write(up, off, at + off, SF_MIN(len - off, (size_t)1 << 20), &err));
	if (strcmp(how, "begin") == 0) {
		must(sf_upload_wait(up, &err));
		_exit(0);
	}
	if (strcmp(how, "drop") == 0) {
		sf_upload_drop(up);
		return;
	}
	r = sf_upload_finish(up, &etag, &err);
	if (r < 0)
		sf_upload_drop(up);
	must(r);
	printf("%s\n", etag ? etag : "-");
	free(etag);
}

static bool all(void *arg, const char *name)
{
	(void)arg;
	fprintf(stderr, "%s\n", name);
	return true;
}

int main(int argc, char **argv)
{
	struct sf_uploads u = { .store = NULL };
	const char *part = getenv("PART_BYTES"), *create = getenv("CREATE");
	enum sf_upload_if when = create ? SF_UPLOAD_CREATE : SF_UPLOAD_REPLACE;
	char *etag = NULL;
	size_t len = 0;

	if (argc < 4)
		return 2;
	const char *how = argv[2], *name = argv[3];
	must(sf_io_init(&io, 2, &err));
	must(sf_store_open(&io, argv[1], NULL, &u.store, &err));
	u.budget = io.budget;
	u.part_bytes = part ? strtoull(part, NULL, 10) : 0;
	must(sf_uploads_init(&u, &err));
	if (strcmp(how, "remove") == 0) {
		must(sf_upload_remove(&u, (const char *const *)argv + 3, (size_t)argc - 3, &err));
	} else if (strcmp(how, "sweep") == 0) {
		must(sf_upload_sweep(&u, name, all, NULL, &err));
	} else {
		SF_FREE uint8_t *at = read_file(argc > 4 ? argv[4] : "", &len);
		if (strcmp(how, "put") != 0) {
			write_it(&u, how, name, at, len, when);
		} else {
			must(sf_upload_put(&u, name, at, len, when, &etag, &err));
			printf("%s\n", etag ? etag : "-");
			free(etag);
		}
	}
	sf_uploads_release(&u);
	sf_store_free(u.store);
	sf_io_release(&io);
	return 0;
}
