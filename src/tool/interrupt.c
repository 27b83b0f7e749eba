#include "config.h"
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <unistd.h>
#include "base/atomic_file.h"
#include "base/clock.h"
#include "base/mem.h"
#include "tool/interrupt.h"
#include "tool/progress.h"

#define LOOK_MS 20 /* how often the end of held work is looked for */

static sigset_t ends;
static struct {
	pthread_mutex_t m;
	_Atomic bool *stop; /* NULL: nothing is held */
	bool told;          /* a signal came: the process ends of it */
} held = { .m = PTHREAD_MUTEX_INITIALIZER };

static bool is_held(void)
{
	pthread_mutex_lock(&held.m);
	bool r = held.stop != NULL;
	held.told = true;
	if (held.stop)
		atomic_store(held.stop, true);
	pthread_mutex_unlock(&held.m);
	return r;
}

void sf_interrupt_hold(_Atomic bool *stop)
{
	pthread_mutex_lock(&held.m);
	held.stop = stop;
	if (held.told)
		atomic_store(stop, true);
	pthread_mutex_unlock(&held.m);
}

void sf_interrupt_release(void)
{
	pthread_mutex_lock(&held.m);
	held.stop = NULL;
	bool told = held.told;
	pthread_mutex_unlock(&held.m);
	while (told)
		pause(); /* the thread that was told ends the process */
}

/* A thread of its own may take locks and allocate, which a handler may not. */
static void *wait_for_end(void *arg)
{
	sigset_t one;
	int sig;
	(void)arg;

	if (sigwait(&ends, &sig) != 0)
		return NULL;
	while (is_held()) {
		struct timespec look = sf_timespec(LOOK_MS * UINT64_C(1000000));
		int again = sigtimedwait(&ends, NULL, &look);
		if (again > 0) {
			sig = again;
			break;
		}
	}
	sf_atomic_file_drop_names();
	sf_terminal_leave();
	signal(sig, SIG_DFL);
	sigemptyset(&one);
	sigaddset(&one, sig);
	pthread_sigmask(SIG_UNBLOCK, &one, NULL);
	raise(sig);
	return NULL;
}

void sf_interrupt_init(void)
{
	static const int sigs[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };
	pthread_t id;

	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN);
	sigemptyset(&ends);
	for (size_t i = 0; i < SF_ARRAY_LEN(sigs); i++) {
		struct sigaction old;
		/* nohup and shells' background jobs ignore some: so do we */
		if (sigaction(sigs[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
			sigaddset(&ends, sigs[i]);
	}
	/* threads that are made later inherit it */
	if (pthread_sigmask(SIG_BLOCK, &ends, NULL) != 0)
		return;
	if (pthread_create(&id, NULL, wait_for_end, NULL) == 0)
		pthread_detach(id);
	else
		pthread_sigmask(SIG_UNBLOCK, &ends, NULL);
}
