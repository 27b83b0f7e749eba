/*
 * A main for a fuzzer where libFuzzer is not linked: `make check` replays what is known and a few
 * damaged copies of it.
 *
 * fuzz_NAME reads tests/fuzz/corpus/NAME: each file there is an input (a fixed bug leaves its own),
 * and SEEDS has patterns of files below tests/data, one a line; one that ends in '/' is a
 * directory, packed with the words behind it (fz_files.h), and undamaged where those ask for more
 * than one run. File names as arguments replay those alone, undamaged.
 */
#include "config.h"

#include <glob.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "tests/fuzz/fz_files.h"
#include "tests/fuzz/fz_mutate.h"
#include "tests/lib/sf_test.h"

#define INPUT_LIMIT (4 << 20) /* bytes of a file that are used */
#define COPIES 60             /* damaged ones of each input */
#define SECONDS 20            /* after them only the inputs themselves */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
/* Not every fuzzer has one of its own. */
__attribute__((weak)) size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size,
                                                     unsigned int seed);

/* In memory of its exact size, so that a sanitizer sees a read past the end. */
static void one(const uint8_t *data, size_t size)
{
	const char *save = getenv("FZ_SAVE");
	uint8_t *copy = malloc(size ? size : 1);
	FILE *f = save ? fopen(save, "wb") : NULL;

	if (!copy)
		abort();
	if (f) {
		fwrite(data, 1, size, f);
		fclose(f);
	}
	memcpy(copy, data, size);
	LLVMFuzzerTestOneInput(copy, size);
	free(copy);
}

/* Cut, or up to four bytes, or a run of bytes changed. */
static size_t damage(uint8_t *data, size_t size, uint64_t *rnd)
{
	if (!size)
		return 0;
	if (sf_test_below(rnd, 5) == 0)
		size = sf_test_below(rnd, size) + 1;
	for (size_t n = sf_test_below(rnd, 5); n > 0; n--)
		data[sf_test_below(rnd, size)] = (uint8_t)sf_test_rand(rnd);
	if (sf_test_below(rnd, 3) == 0) {
		size_t at = sf_test_below(rnd, size), len = sf_test_below(rnd, 9);
		memset(data + at, sf_test_below(rnd, 2) ? 0xff : 0, SF_MIN(len, size - at));
	}
	return size;
}

static uint64_t mutate_rnd;

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size)
{
	(void)max_size;
	return damage(data, size, &mutate_rnd);
}

static size_t change(uint8_t *data, size_t size, uint64_t *rnd)
{
	mutate_rnd = sf_test_rand(rnd);
	if (!LLVMFuzzerCustomMutator || sf_test_below(rnd, 4) == 0)
		return damage(data, size, rnd);
	for (size_t n = sf_test_below(rnd, 3) + 1; n > 0; n--)
		size = LLVMFuzzerCustomMutator(data, size, INPUT_LIMIT,
		                               (unsigned int)sf_test_rand(rnd));
	return size;
}

static int replay_bytes(const char *name, const uint8_t *data, size_t size, const uint64_t *rnd,
                        unsigned copies)
{
	uint8_t *copy = malloc(INPUT_LIMIT);

	/* of its own, so that the seed repeats it wherever the time ended */
	uint64_t own = *rnd;

	for (const char *c = name; *c; c++)
		own = own * 31 + (uint8_t)*c;
	if (!copy)
		abort();
	printf("%s\n", name); /* before the run: the last line names the one that crashed */
	fflush(stdout);
	one(data, size);
	for (unsigned i = 0; i < copies; i++) {
		memcpy(copy, data, size);
		one(copy, change(copy, size, &own));
	}
	free(copy);
	return 1;
}

static int replay(const char *path, uint64_t *rnd, unsigned copies)
{
	uint8_t *data = malloc(INPUT_LIMIT);
	FILE *f = fopen(path, "rb");
	size_t size;

	if (!data || !f) {
		fprintf(stderr, "%s: cannot be read\n", path);
		exit(EXIT_FAILURE);
	}
	size = fread(data, 1, INPUT_LIMIT, f);
	fclose(f);
	replay_bytes(path, data, size, rnd, copies);
	free(data);
	return 1;
}

/* "dcp/flat/ckpt/ objects=plain": a directory as one input. */
static int replay_dir(char *line, uint64_t *rnd, unsigned copies)
{
	char *words = strchr(line, ' '), path[4096], name[4096];
	struct sf_buf packed = { .limit = INPUT_LIMIT };

	snprintf(name, sizeof(name), "%s", line);
	if (words)
		*words++ = '\0';
	if (fz_pack_dir(&packed, sf_test_data(path, line), words ? words : "") < 0 ||
	    packed.failed) {
		fprintf(stderr, "%s: cannot be packed\n", path);
		exit(EXIT_FAILURE);
	}
	replay_bytes(name, packed.at, packed.len, rnd,
	             words && strstr(words, "-each=") ? 0 : copies);
	sf_buf_release(&packed);
	return 1;
}

static int replay_glob(const char *pattern, uint64_t *rnd, time_t end)
{
	glob_t g;
	int n = 0;

	if (glob(pattern, GLOB_PERIOD, NULL, &g) != 0)
		return 0;
	for (size_t i = 0; i < g.gl_pathc; i++) {
		const char *name = strrchr(g.gl_pathv[i], '/') + 1;
		if (strcmp(name, ".") != 0 && strcmp(name, "..") != 0 && strcmp(name, "SEEDS") != 0)
			n += replay(g.gl_pathv[i], rnd, time(NULL) < end ? COPIES : 0);
	}
	globfree(&g);
	return n;
}

int main(int argc, char **argv)
{
	const char *top = getenv("SF_SRCDIR"), *name = strrchr(argv[0], '/');
	const time_t end = time(NULL) + SECONDS;
	char path[4096], line[1024], below[4096];
	uint64_t rnd = 0;
	FILE *seeds;
	int n = 0;

	if (argc > 1) {
		for (int i = 1; i < argc; i++)
			n += replay(argv[i], &rnd, 0);
		printf("%d passed, 0 failed, 0 skipped\n", n);
		return EXIT_SUCCESS;
	}
	name = name ? name + 1 : argv[0];
	name += strncmp(name, "lt-", 3) == 0 ? 3 : 0; /* libtool's name for it */
	name += strncmp(name, "fuzz_", 5) == 0 ? 5 : 0;
	rnd = sf_test_seed(name);

	snprintf(path, sizeof(path), "%s/tests/fuzz/corpus/%s/*", top ? top : ".", name);
	n += replay_glob(path, &rnd, end);
	snprintf(path, sizeof(path), "%s/tests/fuzz/corpus/%s/SEEDS", top ? top : ".", name);
	seeds = fopen(path, "r");
	while (seeds && fgets(line, sizeof(line), seeds)) {
		line[strcspn(line, "\n")] = '\0';
		if (strstr(line, "/ ") || (line[0] && line[strlen(line) - 1] == '/'))
			n += replay_dir(line, &rnd, time(NULL) < end ? COPIES : 0);
		else if (line[0])
			n += replay_glob(sf_test_data(below, line), &rnd, end);
	}
	if (seeds)
		fclose(seeds);
	if (n == 0) {
		printf("no input in %s and its folder\n0 passed, 1 failed, 0 skipped\n", path);
		return EXIT_FAILURE;
	}
	printf("%d passed, 0 failed, 0 skipped\n", n);
	return EXIT_SUCCESS;
}
