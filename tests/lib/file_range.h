/* Planned files by byte ranges, as a writer would go through them. */
#ifndef SF_TESTS_LIB_FILE_RANGE_H
#define SF_TESTS_LIB_FILE_RANGE_H

#include "parse/st_file_plan.h"
#include "parse/torch_file_plan.h"

/* [off, off+len) of the file, from its records. What the sink says, or -ENOMEM. */
int st_file_range(const struct sf_st_file *f, uint64_t off, uint64_t len,
                  const struct sf_st_file_sink *to);
/* The same of a .pt file: its head, the caller's pickle, its pieces. */
int torch_file_range(const struct sf_torch_file *f, uint64_t off, uint64_t len,
                     const struct sf_torch_file_sink *to);

#endif
