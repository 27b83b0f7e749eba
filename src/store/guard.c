#include "config.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "store/guard.h"

/*
 * The handler leaves by a jump. It runs with the thread's own mask, which needs no putting back:
 * but under ThreadSanitizer, whose own handler calls ours with all signals blocked.
 */
#if defined(__SANITIZE_THREAD__)
#define SAVE_MASK 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define SAVE_MASK 1
#endif
#endif
#ifndef SAVE_MASK
#define SAVE_MASK 0
#endif

/* The copy under way in this thread. The fences keep its loads between arming and disarming: to the
 * compiler the handler is nobody. */
struct armed {
	sigjmp_buf back;
	uintptr_t from, end;
};
static __thread struct armed *volatile armed;
static struct sigaction before; /* written once by sf_guard_install(), before there are copies */

static void on_bus(int sig, siginfo_t *info, void *context)
{
	struct armed *a = armed;
	uintptr_t at = (uintptr_t)info->si_addr;

	if (a && at >= a->from && at < a->end) {
		armed = NULL;
		siglongjmp(a->back, 1);
	}
	if (before.sa_flags & SA_SIGINFO && before.sa_sigaction)
		before.sa_sigaction(sig, info, context);
	else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN)
		before.sa_handler(sig);
	else
		sigaction(sig, &before,
		          NULL); /* the load is done again and ends the process as it would have */
}

int sf_guard_install(void)
{
	struct sigaction act;

	memset(&act, 0, sizeof(act));
	act.sa_sigaction = on_bus;
	/* not blocked while the handler runs: it is left by a jump, which keeps the mask as it is */
	act.sa_flags = SA_SIGINFO | SA_NODEFER;
	sigemptyset(&act.sa_mask);
	return sigaction(SIGBUS, &act, &before) == 0 ? 0 : -errno;
}

static __attribute__((noinline)) void copy(const struct iovec *iov, int niov, const uint8_t *src)
{
	for (int i = 0; i < niov; src += iov[i++].iov_len)
		memcpy(iov[i].iov_base, src, iov[i].iov_len);
}

int sf_guard_copy(const struct iovec *iov, int niov, const void *from)
{
	struct armed a = { .from = (uintptr_t)from, .end = (uintptr_t)from };

	for (int i = 0; i < niov; i++)
		a.end += iov[i].iov_len;
	if (sigsetjmp(a.back, SAVE_MASK) != 0)
		return -EFAULT;
	armed = &a;
	atomic_signal_fence(memory_order_seq_cst);
	copy(iov, niov, from);
	atomic_signal_fence(memory_order_seq_cst);
	armed = NULL;
	return 0;
}

/* A length the compiler knows is moved in place: a call for each run of 128 bytes costs as much as
 * the move. */
#define RUNS(n)                                                                   \
	case n:                                                                   \
		for (uint64_t i = 0; i < count; i++, src += (n), dst += dst_step) \
			memcpy(dst, src, n);                                      \
		break

static __attribute__((noinline)) void copy_strided(uint8_t *dst, int64_t dst_step,
                                                   const uint8_t *src, uint64_t len, uint64_t count)
{
	switch (len) {
		RUNS(16);
		RUNS(32);
		RUNS(64);
		RUNS(128);
		RUNS(256);
	default:
		for (uint64_t i = 0; i < count; i++, src += len, dst += dst_step)
			memcpy(dst, src, len);
	}
}

int sf_guard_copy_strided(void *dst, int64_t dst_step, const void *from, uint64_t len,
                          uint64_t count)
{
	struct armed a = { .from = (uintptr_t)from, .end = (uintptr_t)from + len * count };

	if (sigsetjmp(a.back, SAVE_MASK) != 0)
		return -EFAULT;
	armed = &a;
	atomic_signal_fence(memory_order_seq_cst);
	copy_strided(dst, dst_step, from, len, count);
	atomic_signal_fence(memory_order_seq_cst);
	armed = NULL;
	return 0;
}
