/* stress.c: traffic between two endpoints of one process while something disturbs it.
 *
 *	stress signals    a handler without SA_ONSTACK runs a thousand times a second
 *	stress fork       children are forked and run a program
 *	stress connect N  N times, both sides connect to each other at the same moment
 *	stress kill       the peer is another process, which is killed
 *	stress stop       the peer is another process, which is stopped for two seconds
 *	stress remove     the interface is removed (needs root)
 */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pair.h"

enum { CHILDREN = 50, SIZE = 1000, POSTED = 100 };

static volatile sig_atomic_t alarms;
static atomic_bool done;

static void on_alarm(int number)
{
	char stack[8192]; /* more than a goroutine has to spare */

	memset(stack, number, sizeof(stack));
	alarms += stack[sizeof(stack) - 1] == number;
}

static ssize_t poll_one(struct fid_cq *cq)
{
	struct fi_cq_data_entry entry;
	ssize_t n;

	while ((n = fi_cq_read(cq, &entry, 1)) == -FI_EAGAIN)
		;
	check(n == 1, "%s", fi_strerror((int) -n));
	return (ssize_t) entry.len;
}

/* exchange sends a message from one side to the other, and compares it. */
static void exchange(struct side *from, struct side *to, int round)
{
	must(fi_recv(to->ep, to->buf, SIZE, to->desc, 0, NULL));
	memset(from->buf + SIZE, round, SIZE);
	must(fi_send(from->ep, from->buf + SIZE, SIZE, from->desc, 0, NULL));
	check(poll_one(to->rx) == SIZE, "length");
	check(to->buf[0] == (unsigned char) round && to->buf[SIZE - 1] == (unsigned char) round, "bytes of round %d", round);
	poll_one(from->tx);
}

static void ping_pong(struct pair *p, int rounds)
{
	for (int i = 0; i < rounds; i++) {
		exchange(&p->a, &p->b, i);
		exchange(&p->b, &p->a, i);
	}
}

static void signals(void)
{
	struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
	struct itimerval timer = {.it_interval.tv_usec = 1000, .it_value.tv_usec = 1000};
	struct pair p;

	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &timer, NULL);
	pair_open(&p, NULL);
	while (alarms < 1000)
		ping_pong(&p, 100);
	pair_close(&p);
	printf("ok: %d signals, without SA_ONSTACK, during traffic\n", (int) alarms);
}

static void *fork_children(void *arg)
{
	for (int i = 0; i < CHILDREN; i++) {
		pid_t child = fork();
		int status;

		if (!child) {
			execlp("true", "true", (char *) NULL);
			_exit(127);
		}
		check(waitpid(child, &status, 0) == child && status == 0, "child %d ended with %x", i, status);
	}
	atomic_store(&done, true);
	return arg;
}

static void forks(void)
{
	struct pair p;
	pthread_t thread;

	pair_open(&p, NULL);
	pthread_create(&thread, NULL, fork_children, NULL);
	while (!atomic_load(&done))
		ping_pong(&p, 100);
	pthread_join(thread, NULL);
	ping_pong(&p, 100);
	pair_close(&p);
	printf("ok: %d programs started during traffic\n", CHILDREN);
}

/* connect_both: two listeners, two connects at once, two accepts. */
static void connect_both(struct pair *x, struct pair *y)
{
	struct fi_eq_cm_entry request, event;
	struct pair *sides[] = {x, y};

	for (int i = 0; i < 2; i++)
		side_open(sides[i], &sides[i]->a, sides[i]->info);
	must(fi_connect(x->a.ep, &y->address, NULL, 0));
	must(fi_connect(y->a.ep, &x->address, NULL, 0));
	for (int i = 0; i < 2; i++) {
		expect_event(sides[i]->listening, FI_CONNREQ, &request, sizeof(request));
		side_open(sides[i], &sides[i]->b, request.info);
		fi_freeinfo(request.info);
		must(fi_accept(sides[i]->b.ep, NULL, 0));
	}
	for (int i = 0; i < 2; i++) {
		expect_event(sides[i]->a.eq, FI_CONNECTED, &event, sizeof(event));
		expect_event(sides[i]->b.eq, FI_CONNECTED, &event, sizeof(event));
	}
	must(fi_recv(y->b.ep, y->b.buf, SIZE, y->b.desc, 0, NULL));
	must(fi_inject(x->a.ep, "hello", 5, 0));
	check(poll_one(y->b.rx) == 5, "length");
	for (int i = 0; i < 2; i++) {
		side_close(&sides[i]->a);
		side_close(&sides[i]->b);
	}
}

static void connects(int n)
{
	struct pair x, y;

	pair_listen(&x, NULL);
	pair_listen(&y, NULL);
	for (int i = 0; i < n; i++)
		connect_both(&x, &y);
	pair_close(&x);
	pair_close(&y);
	printf("ok: %d simultaneous connects\n", n);
}

/* serve accepts one connection in a process of its own, and posts receives for half of what comes. It never returns. */
static void serve(int to)
{
	struct fi_eq_cm_entry event;
	struct pair p;

	pair_listen(&p, NULL);
	check(write(to, &p.address, sizeof(p.address)) == sizeof(p.address), "pipe");
	expect_event(p.listening, FI_CONNREQ, &event, sizeof(event));
	side_open(&p, &p.b, event.info);
	for (int i = 0; i < POSTED / 2; i++)
		must(fi_recv(p.b.ep, p.b.buf, SIZE, p.b.desc, 0, NULL));
	must(fi_accept(p.b.ep, NULL, 0));
	for (;;)
		pause();
}

/* connect_child connects side a with a child that serves. */
static pid_t connect_child(struct pair *p)
{
	struct fi_eq_cm_entry event;
	struct sockaddr_storage address;
	int fds[2];
	pid_t child;

	check(!pipe(fds), "pipe");
	child = fork(); /* the library is not loaded yet */
	if (!child)
		serve(fds[1]);
	check(read(fds[0], &address, sizeof(address)) == sizeof(address), "pipe");
	pair_listen(p, NULL);
	side_open(p, &p->a, p->info);
	must(fi_connect(p->a.ep, &address, NULL, 0));
	expect_event(p->a.eq, FI_CONNECTED, &event, sizeof(event));
	return child;
}

/* stopped: requests wait for a peer that is stopped for less than its time-out, and then succeed. */
static void stopped(void)
{
	struct fi_cq_data_entry entry;
	struct fi_eq_cm_entry event;
	struct pair p;
	pid_t child = connect_child(&p);
	int status;

	kill(child, SIGSTOP);
	check(waitpid(child, &status, WUNTRACED) == child && WIFSTOPPED(status), "child");
	for (int i = 0; i < POSTED / 2; i++)
		must(fi_send(p.a.ep, p.a.buf, SIZE, p.a.desc, 0, NULL));
	check(fi_cq_sread(p.a.tx, &entry, 1, NULL, 2000) == -FI_EAGAIN, "a completion, but the peer is stopped");
	kill(child, SIGCONT);
	for (int i = 0; i < POSTED / 2; i++)
		completion(p.a.tx);
	check(fi_eq_read(p.a.eq, &(uint32_t){0}, &event, sizeof(event), 0) == -FI_EAGAIN, "an event");
	kill(child, SIGKILL);
	check(waitpid(child, NULL, 0) == child, "child");
	pair_close(&p);
	printf("ok: requests wait for a peer that is stopped\n");
}

static void command(const char *line)
{
	check(system(line) == 0, "%s", line);
}

/* removed: when the interface is gone, requests are canceled, both event queues report the end, and new calls fail: the device is gone. */
static void removed(void)
{
	struct options options = {.address = "10.98.0.1"};
	struct fi_eq_cm_entry event;
	struct fi_cq_err_entry error;
	struct fid_mr *mr;
	struct pair p;

	if (unshare(CLONE_NEWNET)) {
		printf("skip: the interface is removed: a network namespace needs root\n");
		return;
	}
	unsetenv("FI_NDXDP_IFACE");
	command("ip link set lo up && ip link add ndx0 type veth peer name ndx1 && ip addr add 10.98.0.1/24 dev ndx0");
	command("ip link set ndx0 up && ip link set ndx1 up");
	pair_open(&p, &options);
	ping_pong(&p, 10);
	must(fi_recv(p.b.ep, p.b.buf, SIZE, p.b.desc, 0, &p));
	command("ip link del ndx0");
	error = failure(p.b.rx);
	check(error.err == FI_ECANCELED && error.op_context == &p, "%s", fi_strerror(error.err));
	expect_event(p.a.eq, FI_SHUTDOWN, &event, sizeof(event));
	expect_event(p.b.eq, FI_SHUTDOWN, &event, sizeof(event));
	check(fi_send(p.a.ep, p.a.buf, SIZE, p.a.desc, 0, NULL) == -FI_ENODEV, "a message");
	check(fi_mr_reg(p.domain, p.a.buf, SIZE, FI_SEND, 0, 0, 0, &mr, NULL) == -FI_ENODEV, "a registration");
	pair_close(&p);
	printf("ok: the interface is removed\n");
}

/* killed: when the peer dies, each request ends once, with an error, and the event queue reports the end once. */
static void killed(void)
{
	struct fi_eq_cm_entry event;
	struct fi_cq_err_entry error;
	int done = 0;
	struct pair p;
	pid_t child = connect_child(&p);

	for (int i = 0; i < POSTED; i++)
		must(fi_send(p.a.ep, p.a.buf, SIZE, p.a.desc, 0, NULL));
	for (; done < POSTED / 2; done++)
		completion(p.a.tx);
	kill(child, SIGKILL);
	for (; done < POSTED; done++) {
		error = failure(p.a.tx);
		check(error.err == FI_ECANCELED || error.err == FI_ETIMEDOUT || error.err == FI_ECONNABORTED, "%s", fi_strerror(error.err));
	}
	expect_event(p.a.eq, FI_SHUTDOWN, &event, sizeof(event));
	check(fi_eq_read(p.a.eq, &(uint32_t){0}, &event, sizeof(event), 0) == -FI_EAGAIN, "a second event");
	check(waitpid(child, NULL, 0) == child, "child");
	pair_close(&p);
	printf("ok: requests end when the peer is killed\n");
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	if (!strcmp(what, "signals"))
		signals();
	else if (!strcmp(what, "fork"))
		forks();
	else if (!strcmp(what, "connect"))
		connects(argc > 2 ? atoi(argv[2]) : 1000);
	else if (!strcmp(what, "kill"))
		killed();
	else if (!strcmp(what, "stop"))
		stopped();
	else if (!strcmp(what, "remove"))
		removed();
	else
		check(false, "usage: stress signals|fork|connect [N]|kill|stop|remove");
	return 0;
}
