#include "config.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/path.h"
#include "save/save_target.h"

uint64_t sf_save_target_host(void)
{
	char id[320] = "";
	FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");
	size_t n = f ? fread(id, 1, 64, f) : 0;
	uint8_t digest[SF_SHA256_BYTES] = { 0 };

	if (f)
		fclose(f);
	if (gethostname(id + n, sizeof(id) - n - 1) == 0)
		n += strnlen(id + n, sizeof(id) - n);
	sf_sha256(id, n, digest);
	return sf_le64(digest);
}

void sf_save_target_token(char ret[33])
{
	uint64_t random = (uint64_t)sf_now_ns() ^ (uint64_t)getpid() << 40;

	(void)!getrandom(&random, sizeof(random), GRND_NONBLOCK);
	snprintf(ret, 33, "%016llx%016llx", (unsigned long long)sf_save_target_host(),
	         (unsigned long long)random);
}
