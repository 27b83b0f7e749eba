/* What stores other than a directory are told: where, as whom, and what they may keep. */
#ifndef SF_STORE_STORE_OPTIONS_H
#define SF_STORE_STORE_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

/* Plain values, borrowed for as long as the stores live that were opened with them. All 0: nothing
 * was given, and each store's own defaults hold. */
struct sf_store_options {
	const char *endpoint_url; /* of an object store that is not its provider's own */
	const char *region, *profile;
	const char *ca_bundle; /* a file of certificates that a server's may be signed by; NULL: the
	                          system's */
	bool no_sign_request;  /* ask as nobody in particular */
	const char *addressing;   /* "path", "virtual"; NULL: by the endpoint */
	bool request_payer;       /* what is fetched is paid by who fetches it */
	const char *user_project; /* of Google's: it pays */
	const char *cache_dir;
	uint64_t cache_size;
	bool cache_size_given; /* 0 is a size */
};

#endif
