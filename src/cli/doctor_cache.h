/* What doctor says of the block cache. */
#ifndef SF_CLI_DOCTOR_CACHE_H
#define SF_CLI_DOCTOR_CACHE_H

#include "store/probe.h"
#include "store/store_options.h"

/*
 * sf_doctor_cache - can what is fetched be kept, as @opt says or by default?
 *
 * *ret_found is malloc'ed, NULL without memory; *ret_remedy is a literal, "" where nothing is wrong.
 * A directory that is not there yet is looked at where it would be made, and not made. Waits for the
 * disk. SF_PROBE_HINT: it cannot; reads go on without it.
 */
enum sf_probe_state sf_doctor_cache(const struct sf_store_options *opt, char **ret_found,
                                    const char **ret_remedy);

#endif
