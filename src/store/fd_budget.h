/* The descriptor budget: how many files reads under way hold open beside those that are kept
 * (open_files.h), all readers of a process together. */
#ifndef SF_STORE_FD_BUDGET_H
#define SF_STORE_FD_BUDGET_H

#include <stdbool.h>
#include <stdint.h>
#include "base/error.h"

/*
 * Where all files of all readers fit those that are kept, none is ever let go while it is in use,
 * and nothing is counted. Where they do not, whoever holds some takes them from the budget first, all at
 * once, first come first served, and never while it has some: whose turn it is comes to an end.
 * Threads: all functions, any number of calls at once.
 */
struct sf_fd_budget;
/* @kept: files that are kept open. @least: so many may be held at any rate. */
int sf_fd_budget_new(unsigned kept, unsigned least, struct sf_fd_budget **ret,
                     struct sf_error *err);
void sf_fd_budget_free(struct sf_fd_budget *fds); /* NULL is fine */

void sf_fd_budget_add(struct sf_fd_budget *fds, uint64_t files); /* a reader's come */
void sf_fd_budget_remove(struct sf_fd_budget *fds, uint64_t files);
bool sf_fd_budget_counts(const struct sf_fd_budget *fds); /* they do not all fit */

struct sf_fd_wait {
	uint32_t n;                            /* files, at most @least */
	void (*granted)(struct sf_fd_wait *w); /* once, any thread, no lock held, not to go on in */
	struct sf_fd_wait *next;
};
bool sf_fd_budget_take(struct sf_fd_budget *fds, uint32_t n);
/* True: taken at once. False: granted is called when it is. */
bool sf_fd_budget_queue(struct sf_fd_budget *fds, struct sf_fd_wait *w);
void sf_fd_budget_give(struct sf_fd_budget *fds, uint32_t n);

#endif
