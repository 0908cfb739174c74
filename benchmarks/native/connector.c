// Opens new TLS 1.3 connections to a broker, as fast as the broker completes them. Each connection sends one request,
// reads the response and closes. Only then does it count.
//
//   connector full    PORT FILE ...   each connection has a full handshake
//   connector resumed PORT FILE ...   each connection offers the session of the connection before it in its slot
//
// There are --connections slots, each with one connection at a time. FILE has one request, as requests.h describes. The
// program prints one line of JSON. `resumed` counts the connections with a session that the broker has resumed, among
// `answers`. At a resumed session that was not offered, or at an error code in a response, the program prints a line on
// stderr and ends with exit code 1.

#define _GNU_SOURCE
#include <fcntl.h>
#include <getopt.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "clocks.h"
#include "requests.h"
#include "sockets.h"

enum {
    ANSWER_SIZE = 1 << 14,        // a whole response to the request
    EVENTS = 256,
    DRAIN_SECONDS = 10,
};

struct slot {
    int fd, is_open, is_resumed, is_first;
    SSL *tls;
    SSL_SESSION *session;         // of the newest ticket, which no connection has offered
    size_t answer_got;
    unsigned char answer[ANSWER_SIZE];
};

static struct {
    int port, connections, resumes;
    double seconds;
    uint64_t settle_ns;
    const char *file;
} option = {.connections = 1, .seconds = 1, .settle_ns = 200000000};

static SSL_CTX *context;
static struct slot *slots;
static int poller, measuring, draining, open_slots, first_connections;
static uint64_t connected, resumed, all_connected;

static const char *tls_reason(void) {
    unsigned long code = ERR_get_error();
    return code ? ERR_error_string(code, NULL) : "the broker closed the connection";
}

// Keeps the session of the newest ticket. Returns 1, because the slot then owns the session.
static int keep_session(SSL *tls, SSL_SESSION *session) {
    struct slot *slot = SSL_get_app_data(tls);
    SSL_SESSION_free(slot->session);
    slot->session = session;
    return 1;
}

static void make_context(void) {
    context = SSL_CTX_new(TLS_client_method());
    SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION);
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
    if (option.resumes)
        SSL_CTX_sess_set_new_cb(context, keep_session);
}

// Returns 0 if OpenSSL waits for bytes of the broker.
static int is_done(struct slot *slot, int result) {
    if (result > 0)
        return 1;
    if (SSL_get_error(slot->tls, result) != SSL_ERROR_WANT_READ)
        fail("TLS: %s", tls_reason());
    return 0;
}

static void send_request(struct slot *slot) {
    slot->is_open = 1;
    slot->is_resumed = SSL_session_reused(slot->tls);
    if (slot->is_resumed && !option.resumes)
        fail("a handshake that should be full resumed a session");
    if (SSL_write(slot->tls, entries[0].bytes, (int)entries[0].size) != (int)entries[0].size)
        fail("TLS: no request sent: %s", tls_reason());
}

static void begin(struct slot *slot) {
    SSL_SESSION *session = slot->session;
    slot->session = NULL;
    slot->is_open = 0;
    slot->answer_got = 0;
    slot->fd = connected_socket(option.port);
    fcntl(slot->fd, F_SETFL, O_NONBLOCK);
    slot->tls = SSL_new(context);
    SSL_set_app_data(slot->tls, slot);
    SSL_set_fd(slot->tls, slot->fd);
    if (session && SSL_set_session(slot->tls, session) != 1)
        fail("TLS: %s", tls_reason());
    SSL_SESSION_free(session);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = slot};
    epoll_ctl(poller, EPOLL_CTL_ADD, slot->fd, &event);
    open_slots++;
    // Done at once if this process has waited for its core in the meantime.
    if (is_done(slot, SSL_connect(slot->tls)))
        send_request(slot);
}

// Closes with close_notify and then a reset, so that the port does not stay in TIME_WAIT: a minute of new connections
// would use up all ports.
static void end(struct slot *slot) {
    struct linger reset = {.l_onoff = 1};
    SSL_shutdown(slot->tls);
    SSL_free(slot->tls);
    slot->tls = NULL;
    setsockopt(slot->fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    close(slot->fd);
    open_slots--;
}

static void answered(struct slot *slot) {
    uint32_t at = entries[0].error_at[0];
    if (at + 2 > slot->answer_got)
        fail("an answer of %zu bytes has no error code at %u", slot->answer_got, at);
    int error = (int16_t)(slot->answer[at] << 8 | slot->answer[at + 1]);
    if (error)
        fail("error %d", error);
    all_connected++;
    first_connections -= slot->is_first;
    slot->is_first = 0;
    if (measuring) {
        connected++;
        resumed += (uint64_t)slot->is_resumed;
    }
    end(slot);
    if (!draining)
        begin(slot);
}

static void receive(struct slot *slot) {
    if (!slot->is_open) {
        if (!is_done(slot, SSL_connect(slot->tls)))
            return;
        send_request(slot);
    }
    int result;
    while (is_done(slot, result = SSL_read(slot->tls, slot->answer + slot->answer_got,
                                           (int)(ANSWER_SIZE - slot->answer_got)))) {
        slot->answer_got += (size_t)result;
        size_t size = slot->answer_got < 4 ? 4 : get32(slot->answer) + 4ul;
        if (size > ANSWER_SIZE)
            fail("an answer of %zu bytes", size);
        if (slot->answer_got >= 4 && slot->answer_got == size) {
            answered(slot);
            return;
        }
    }
}

static int in_handshake(void) {
    int count = 0;
    for (int i = 0; i < option.connections; i++)
        count += slots[i].tls && !slots[i].is_open;
    return count;
}

// Returns the measured seconds, from the end of settling to the deadline. Then waits for the last responses. The first
// connection of a slot has no session to offer, so settling ends after all of them.
static double run(void) {
    struct epoll_event events[EVENTS];
    uint64_t start = now_ns(), from = 0, until = 0;
    for (;;) {
        int count = epoll_wait(poller, events, EVENTS, 10);
        for (int i = 0; i < count; i++)
            receive(events[i].data.ptr);
        uint64_t now = now_ns();
        if (!from && !first_connections && now - start >= option.settle_ns) {
            from = now;
            measuring = 1;
        }
        if (measuring && (double)(now - from) * 1e-9 >= option.seconds) {
            until = now;
            measuring = 0;
            draining = 1;
        }
        if (draining && !open_slots)
            return (double)(until - from) * 1e-9;
        if (draining && now - until > DRAIN_SECONDS * 1000000000ull)
            fail("%d connections without an answer for %d s, %d of them in the handshake", open_slots, DRAIN_SECONDS,
                 in_handshake());
    }
}

static void read_options(int count, char **words) {
    static const struct option names[] = {
        {"connections", 1, 0, 'c'}, {"seconds", 1, 0, 's'}, {"settle-ms", 1, 0, 'w'}, {0, 0, 0, 0}};
    for (int name; (name = getopt_long(count, words, "", names, NULL)) != -1;)
        switch (name) {
        case 'c': option.connections = atoi(optarg); break;
        case 's': option.seconds = atof(optarg); break;
        case 'w': option.settle_ns = strtoull(optarg, NULL, 10) * 1000000; break;
        default: exit(2);
        }
    if (count - optind != 3)
        fail("usage: connector full|resumed PORT FILE [--connections N] [--seconds S] [--settle-ms MS]");
    option.resumes = !strcmp(words[optind], "resumed");
    option.port = atoi(words[optind + 1]);
    option.file = words[optind + 2];
}

int main(int count, char **words) {
    read_options(count, words);
    read_entries(option.file);
    if (entry_count != 1)
        fail("%zu requests where 1 is needed", entry_count);
    make_context();
    poller = epoll_create1(0);
    slots = calloc((size_t)option.connections, sizeof *slots);
    first_connections = option.connections;
    for (int i = 0; i < option.connections; i++) {
        slots[i].is_first = 1;
        begin(&slots[i]);
    }
    double seconds = run();
    printf("{\"seconds\": %.6f, \"answers\": %lu, \"all_answers\": %lu, \"resumed\": %lu, "
           "\"load_cpu_seconds\": %.3f}\n",
           seconds, connected, all_connected, resumed, own_cpu_seconds());
    return 0;
}
