#include "config.h"
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <unistd.h>
#include "base/atomic_file.h"
#include "base/mem.h"
#include "tool/interrupt.h"
#include "tool/progress.h"

static sigset_t ends;

/* A thread of its own may take locks and allocate, which a handler may not. */
static void *wait_for_end(void *arg)
{
	sigset_t one;
	int sig;
	(void)arg;

	if (sigwait(&ends, &sig) != 0)
		return NULL;
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
