/* What is behind the public handles. Only lib/ includes it. */
#ifndef SF_LIB_LIB_PRIV_H
#define SF_LIB_LIB_PRIV_H

#include <stdbool.h>
#include <stddef.h>

#include "base/growing.h"
#include "lib/session.h"
#include "shardfuse.h"

struct shardfuse_context {
	struct sf_io io;
	struct sf_log log;
	struct shardfuse_context_options opt;
};

struct shardfuse {
	bool in_common; /* opened without a context */
	struct sf_session_options opt;
	struct sf_session s;
	char *hf_files;
	/* tensors and objects as they are numbered outside: entries of the catalog, and back */
	uint32_t *tensor, *object;
	uint32_t *number; /* by entry */
};

/* A read of callers of the first version that had them. */
#define SF_LIB_READ_LEAST (offsetof(struct shardfuse_read, result) + sizeof(int))

/* What the context tells its stores; the strings are its caller's. */
struct sf_store_options sf_lib_store_options(const struct shardfuse_context *ctx);
/* The context of handles that were opened without one: made for the first of them, freed with the
 * last. A join for each leave; any thread. */
int sf_lib_common_join(struct shardfuse_context **ret, struct sf_error *err);
void sf_lib_common_leave(void);
/* The tensor of a public number, and how it is shown. -EINVAL. */
int sf_lib_tensor(const struct shardfuse *h, uint64_t tensor, const struct sf_tensor **ret,
                  const struct sf_entry **ret_entry, struct sf_error *err);
/* Bytes as shown: after a cast. */
uint64_t sf_lib_bytes(const struct sf_tensor *t, const struct sf_entry *entry);

#endif
