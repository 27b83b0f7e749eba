/*
 * What libcurl's write callback costs: bytes of a server into their final buffer by the callback, at most 16 KiB a call
 * and a copy each, against curl_easy_recv() on a connection of CURLOPT_CONNECT_ONLY, which puts them there itself and
 * leaves HTTP to the caller.
 *
 * usage: curl_receive [ROUNDS [URL]]     9 rounds of 1 GiB in ranges of 8 MiB; URL: an object of at least 8 MiB instead of
 *                                        the server in a process of our own
 * Prints medians of CPU seconds per GiB (this process alone, user and system) and the median of the rounds' ratios.
 */
#include "config.h"
#include <arpa/inet.h>
#include <curl/curl.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define RANGE ((size_t)8 << 20)
#define RANGES 128                /* a round: 1 GiB */
#define BUFFER_BYTES (512L << 10) /* as http_curl.c has it */
#define ROUNDS_MAX 99

static char *out; /* RANGE bytes */

static void die(const char *what, const char *why)
{
	fprintf(stderr, "curl_receive: %s: %s\n", what, why);
	exit(1);
}

static double cpu(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
	       (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

/* ---- the server: every request is answered with RANGE bytes ---- */

static void send_all(int fd, const char *p, size_t n)
{
	while (n) {
		ssize_t k = send(fd, p, n, MSG_NOSIGNAL);
		if (k <= 0)
			_exit(0);
		p += k;
		n -= (size_t)k;
	}
}

static void serve(int fd)
{
	char head[4096], answer[256];
	size_t have = 0;
	char *body = calloc(1, RANGE);
	int n = snprintf(answer, sizeof(answer),
	                 "HTTP/1.1 206 Partial Content\r\nContent-Length: %zu\r\nContent-Range: "
	                 "bytes 0-%zu/%zu\r\n\r\n",
	                 RANGE, RANGE - 1, RANGE);

	while (body) {
		ssize_t k = recv(fd, head + have, sizeof(head) - 1 - have, 0);
		if (k <= 0)
			break;
		have += (size_t)k;
		head[have] = '\0';
		if (!strstr(head, "\r\n\r\n"))
			continue;
		have = 0;
		send_all(fd, answer, (size_t)n);
		send_all(fd, body, RANGE);
	}
	_exit(0);
}

static const char *start_server(void)
{
	static char url[64];
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
	socklen_t len = sizeof(at);
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	if (fd < 0 || bind(fd, (struct sockaddr *)&at, len) < 0 || listen(fd, 8) < 0 ||
	    getsockname(fd, (struct sockaddr *)&at, &len) < 0)
		die("server", strerror(errno));
	snprintf(url, sizeof(url), "http://127.0.0.1:%u/x", ntohs(at.sin_port));
	if (fork() == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		signal(SIGCHLD, SIG_IGN);
		for (;;) {
			int c = accept(fd, NULL, NULL);
			if (c >= 0 && fork() == 0) {
				prctl(PR_SET_PDEATHSIG, SIGKILL);
				serve(c);
			}
			close(c);
		}
	}
	close(fd);
	return url;
}

/* ---- by the callback ---- */

static size_t copy(char *data, size_t one, size_t n, void *arg)
{
	size_t *at = arg;

	(void)one;
	if (n > RANGE - *at)
		return 0;
	memcpy(out + *at, data, n);
	*at += n;
	return n;
}

static double by_callback(CURL *c)
{
	double before = cpu();

	for (int i = 0; i < RANGES; i++) {
		size_t at = 0;
		curl_easy_setopt(c, CURLOPT_WRITEDATA, &at);
		CURLcode r = curl_easy_perform(c);
		if (r != CURLE_OK || at != RANGE)
			die("callback", r != CURLE_OK ? curl_easy_strerror(r) : "a short answer");
	}
	return cpu() - before;
}

/* ---- by recv ---- */

static size_t receive(CURL *c, curl_socket_t fd, char *to, size_t n)
{
	size_t got = 0;

	for (;;) {
		CURLcode r = curl_easy_recv(c, to, n, &got);
		if (r == CURLE_OK && got)
			return got;
		if (r != CURLE_AGAIN)
			die("recv", r == CURLE_OK ? "the server closed" : curl_easy_strerror(r));
		poll(&(struct pollfd){ .fd = fd, .events = POLLIN }, 1, -1);
	}
}

static double by_recv(CURL *c, const char *request)
{
	curl_socket_t fd;
	double before = cpu();

	curl_easy_getinfo(c, CURLINFO_ACTIVESOCKET, &fd);
	for (int i = 0; i < RANGES; i++) {
		char head[8192];
		size_t n = 0, at, sent;
		char *end = NULL;
		if (curl_easy_send(c, request, strlen(request), &sent) != CURLE_OK ||
		    sent != strlen(request))
			die("send", "not all of the request");
		while (!end) {
			if (n == sizeof(head) - 1)
				die("recv", "no end of the headers");
			n += receive(c, fd, head + n, sizeof(head) - 1 - n);
			head[n] = '\0';
			end = strstr(head, "\r\n\r\n");
		}
		if (strncmp(head, "HTTP/1.1 206", 12) != 0)
			die("recv", "not a 206");
		at = n - (size_t)(end + 4 - head);
		memcpy(out, end + 4, at);
		while (at < RANGE)
			at += receive(c, fd, out + at, RANGE - at);
	}
	return cpu() - before;
}

static int by_value(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static double median(double *v, int n)
{
	qsort(v, (size_t)n, sizeof(*v), by_value);
	return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 9;
	double callback[ROUNDS_MAX], recv_[ROUNDS_MAX], ratio[ROUNDS_MAX];
	const char *url = argc > 2 ? argv[2] : start_server();
	char request[2048], range[64];
	const char *host = strstr(url, "://"), *path;

	if (rounds < 1 || rounds > ROUNDS_MAX || !host)
		die("usage", "curl_receive [ROUNDS [URL]]");
	host += 3;
	path = strchr(host, '/');
	snprintf(range, sizeof(range), "0-%zu", RANGE - 1);
	snprintf(request, sizeof(request),
	         "GET %s HTTP/1.1\r\nHost: %.*s\r\nRange: bytes=%s\r\n\r\n", path ? path : "/",
	         (int)(path ? path - host : (long)strlen(host)), host, range);
	out = malloc(RANGE);
	curl_global_init(CURL_GLOBAL_DEFAULT);
	CURL *a = curl_easy_init(), *b = curl_easy_init();
	if (!out || !a || !b)
		die("memory", strerror(ENOMEM));
	for (int i = 0; i < 2; i++) {
		CURL *c = i ? b : a;
		curl_easy_setopt(c, CURLOPT_URL, url);
		curl_easy_setopt(c, CURLOPT_SSL_VERIFYPEER, 0L); /* a bench's own server */
		curl_easy_setopt(c, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
		curl_easy_setopt(c, CURLOPT_BUFFERSIZE, BUFFER_BYTES);
	}
	curl_easy_setopt(a, CURLOPT_RANGE, range);
	curl_easy_setopt(a, CURLOPT_WRITEFUNCTION, copy);
	curl_easy_setopt(b, CURLOPT_CONNECT_ONLY, 1L);
	CURLcode r = curl_easy_perform(b);
	if (r != CURLE_OK)
		die("connect", curl_easy_strerror(r));
	for (int i = 0; i < rounds; i++) {
		callback[i] = by_callback(a);
		recv_[i] = by_recv(b, request);
		ratio[i] = callback[i] / recv_[i];
	}
	double gib = (double)RANGE * RANGES / (1 << 30);
	printf("%.3f CPU-s/GiB by the callback, %.3f by recv, ratio %.2f (median of %d)\n",
	       median(callback, rounds) / gib, median(recv_, rounds) / gib, median(ratio, rounds),
	       rounds);
	curl_easy_cleanup(a);
	curl_easy_cleanup(b);
	return 0;
}
