#include "config.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "store/cache_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define BYTES (3 * SF_CACHE_BLOCK + 100)

static const struct sf_cache_id id = { "s3://bucket/x", "\"tag\"", BYTES };
static char dir_name[] = "/tmp/sf_fuzz_cache_XXXXXX", name[SF_CACHE_NAME + 1];
static int dir;
static struct sf_io io;

static void end(void)
{
	sf_cache_file_remove(dir, name);
	rmdir(dir_name);
	sf_io_release(&io);
}

static void put(const char *suffix, const void *at, size_t len)
{
	char path[100];
	int fd;

	snprintf(path, sizeof(path), "%s%s", name, suffix);
	fd = openat(dir, path, O_CREAT | O_TRUNC | O_WRONLY, 0600);
	if (fd < 0 || write(fd, at, len) != (ssize_t)len)
		abort();
	close(fd);
}

static void begin(void)
{
	if (name[0])
		return;
	if (!mkdtemp(dir_name) || (dir = open(dir_name, O_RDONLY | O_DIRECTORY)) < 0 ||
	    sf_cache_name(&id, name) < 0 || sf_io_init(&io, 1, NULL) < 0)
		abort();
	atexit(end);
}

/* Any bytes as a header: what is taken is written again as it was. */
static void head(const uint8_t *data)
{
	uint8_t again[SF_CACHE_HEAD];
	struct sf_cache_id got;

	if (sf_cache_head_get(data, &got) < 0)
		return;
	if (sf_cache_head_put(&got, again) < 0 || sf_le64(again + 16) != got.size)
		abort();
}

/* Any bytes as a map file, beside bytes that are all right: what it says is there has its sum, and
 * what is stored then is there. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static uint8_t bytes[BYTES], block[SF_CACHE_BLOCK];
	struct sf_error err = SF_ERROR_INIT;
	struct sf_cache_file *f;
	bool there[4];

	begin();
	if (size >= SF_CACHE_HEAD)
		head(data);
	put(SF_CACHE_MAP, data, size);
	put(SF_CACHE_DATA, bytes, sizeof(bytes));
	if (sf_cache_file_open(&io, dir, &id, name, &f, &err) < 0)
		abort(); /* whatever lies there, it is made anew */
	sf_cache_file_verify(f, 0, 4, there);
	for (unsigned i = 0; i < 4; i++) {
		uint64_t len = SF_MIN(SF_CACHE_BLOCK, BYTES - i * SF_CACHE_BLOCK);
		uint8_t mark[SF_CACHE_MARK];
		uint32_t sum;
		if (!there[i])
			continue;
		if (pread(f->map, mark, sizeof(mark), (off_t)(SF_CACHE_HEAD + i * SF_CACHE_MARK)) !=
		            sizeof(mark) ||
		    !sf_cache_mark_get(mark, &sum) ||
		    sum != sf_cache_sum(name, i, bytes + i * SF_CACHE_BLOCK, len))
			abort();
	}
	memset(block, 7, sizeof(block));
	if (sf_cache_file_store(f, 1, block, sizeof(block)) < 0)
		abort();
	sf_cache_file_verify(f, 1, 1, there);
	if (!there[0])
		abort();
	sf_cache_file_free(f);
	return 0;
}
