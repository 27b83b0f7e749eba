/* Is a request signed as AWS's signature version 4 wants it? From what came over the wire, and by no code of the program's but
 * SHA-256: what signs and what checks must not share a mistake. */
#ifndef SF_TESTS_LIB_SIGV4_CHECK_H
#define SF_TESTS_LIB_SIGV4_CHECK_H

#include <stdbool.h>
#include <stdint.h>

struct sf_sigv4_said {
	char key_id[64], region[64], token[128];
	int64_t time;    /* x-amz-date, seconds since 1970 */
	const char *why; /* it is not right; NULL: it is */
};
/*
 * @target: path and query as they were sent; @head: the whole head. The secret of a key id is
 * @secret in front of that id. Nothing is said of whether region, key and time are the right ones.
 * false, with a reason: what a server would answer SignatureDoesNotMatch to.
 */
bool sf_sigv4_check(const char *method, const char *target, const char *head, const char *secret,
                    struct sf_sigv4_said *ret);

#endif
