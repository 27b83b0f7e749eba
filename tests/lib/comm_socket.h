/* A communicator of forked processes: who is killed is seen at once, as the end of its sockets. */
#ifndef SF_TESTS_LIB_COMM_SOCKET_H
#define SF_TESTS_LIB_COMM_SOCKET_H

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "shardfuse_save.h"

#define COMM_SOCKET_MAX 16

struct comm_socket_head {
	uint32_t tag;
	uint64_t len;
};
struct comm_socket_message {
	struct comm_socket_message *next;
	struct comm_socket_head head;
	void *at;
};
struct comm_socket {
	uint32_t rank, size, tag;
	int fd[COMM_SOCKET_MAX];
	struct comm_socket_message *came[COMM_SOCKET_MAX]; /* not asked for yet, oldest first */
};

/* Before the fork: a pair for each two ranks. */
static inline void comm_socket_pairs(uint32_t n, int (*pair)[COMM_SOCKET_MAX])
{
	int fd[2];

	for (uint32_t i = 0; i < n; i++)
		for (uint32_t j = 0; j < i; j++) {
			if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd) < 0)
				abort();
			pair[i][j] = fd[0];
			pair[j][i] = fd[1];
		}
}

static inline void comm_socket_close(uint32_t n, int (*pair)[COMM_SOCKET_MAX], uint32_t but)
{
	for (uint32_t i = 0; i < n; i++)
		for (uint32_t j = 0; j < n; j++)
			if (i != j && i != but)
				close(pair[i][j]);
}

static inline bool comm_socket_all(int fd, void *at, size_t len, bool out)
{
	while (len) {
		ssize_t n = out ? send(fd, at, len, MSG_NOSIGNAL) : recv(fd, at, len, 0);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		at = (char *)at + n;
		len -= (size_t)n;
	}
	return true;
}

static inline int comm_socket_gone(uint32_t rank, struct shardfuse_error *err)
{
	snprintf(err->msg, sizeof(err->msg), "rank %u is gone", rank);
	return -EPIPE;
}

static inline int comm_socket_send(void *arg, uint32_t to, uint32_t tag, const void *at, size_t len,
                                   struct shardfuse_error *err)
{
	struct comm_socket *c = arg;
	struct comm_socket_head head = { tag, len };

	if (!comm_socket_all(c->fd[to], &head, sizeof(head), true) ||
	    !comm_socket_all(c->fd[to], (void *)(uintptr_t)at, len, true))
		return comm_socket_gone(to, err);
	return 0;
}

static inline bool comm_socket_take(struct comm_socket *c, uint32_t from, uint32_t tag, void **ret,
                                    size_t *ret_len)
{
	for (struct comm_socket_message **m = &c->came[from], *one; (one = *m); m = &one->next)
		if (one->head.tag == tag) {
			*m = one->next;
			*ret = one->at;
			*ret_len = one->head.len;
			free(one);
			return true;
		}
	return false;
}

static inline int comm_socket_recv(void *arg, uint32_t from, uint32_t tag, void **ret,
                                   size_t *ret_len, unsigned timeout_ms,
                                   struct shardfuse_error *err)
{
	struct comm_socket *c = arg;

	while (!comm_socket_take(c, from, tag, ret, ret_len)) {
		struct pollfd p = { c->fd[from], POLLIN, 0 };
		struct comm_socket_message *m, **last = &c->came[from];
		if (poll(&p, 1, (int)timeout_ms) == 0)
			return -EAGAIN;
		m = calloc(1, sizeof(*m));
		if (!m || !comm_socket_all(p.fd, &m->head, sizeof(m->head), false) ||
		    !(m->at = malloc(m->head.len + 1)) ||
		    !comm_socket_all(p.fd, m->at, m->head.len, false)) {
			free(m ? m->at : NULL);
			free(m);
			return comm_socket_gone(from, err);
		}
		while (*last)
			last = &(*last)->next;
		*last = m;
	}
	return 0;
}

/* In the child that is @rank. */
static inline void comm_socket_begin(struct comm_socket *c, uint32_t rank, uint32_t n,
                                     int (*pair)[COMM_SOCKET_MAX], struct shardfuse_comm *ret)
{
	memset(c, 0, sizeof(*c));
	c->rank = rank;
	c->size = n;
	memcpy(c->fd, pair[rank], sizeof(c->fd));
	comm_socket_close(n, pair, rank);
	*ret = (struct shardfuse_comm)SHARDFUSE_INIT(*ret);
	ret->arg = c;
	ret->rank = rank;
	ret->size = n;
	ret->send = comm_socket_send;
	ret->recv = comm_socket_recv;
	ret->threads = 1;
	ret->tag = &c->tag;
}

#endif
