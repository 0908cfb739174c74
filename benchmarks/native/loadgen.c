// A closed-loop load generator for brokers. It sends ready-made requests as fast as responses allow.
//
//   loadgen repeat    PORT FILE ...   every connection cycles through all requests of FILE, pipelined
//   loadgen producers PORT FILE ...   connection i is a producer with an id: it cycles through the
//                                     --steps requests from i * steps on, pipelined, with ascending sequences
//   loadgen steps     PORT FILE ...   as producers, with one request in flight: each --unit requests are
//                                     one transaction
//
// requests.h describes FILE, stream.h the connections. The program prints one line of JSON. At the first error code
// in a response, it prints a line on stderr and ends with exit code 1.

#define _GNU_SOURCE
#include <getopt.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "clocks.h"
#include "requests.h"
#include "patches.h"
#include "sockets.h"
#include "stream.h"

enum {
    CONCURRENT_TRANSACTIONS = 51,
    MAX_IN_FLIGHT = 1024,
    ANSWER_HEAD = 1024,           // all error codes are within this many bytes of a response
    DISCARD_FROM = 1 << 15,       // if more of a response is missing, it is discarded without a copy
    EVENTS = 256,
    SETTLE_SHARE = 10,            // at most a tenth of --max-bytes is sent before measuring
    DRAIN_SECONDS = 10,
    TICK_NS = 100,                // the step in which latencies are counted
    TICKS = 20 * 1000 * 1000,     // the number of steps: up to two seconds
};

struct connection {
    struct stream stream;
    int wants_write;
    size_t next, sent;            // repeat: the next frame of the tape, and its sent bytes
    unsigned in_flight, newest, oldest;
    uint64_t started[MAX_IN_FLIGHT];
    size_t answer_size, answer_got;
    unsigned char answer[ANSWER_HEAD];
    struct entry *steps;          // producers, steps: its requests, its position, the time of the next retry
    int step, idle;
    int32_t sequence, correlation_id;
    uint64_t again_at;
};

static struct {
    int port, connections, depth, steps, unit;
    enum { REPEAT, PRODUCERS, STEPS } mode;
    double seconds;
    uint64_t settle_ns, pause_ns, max_bytes, answers;
    const char *file;
} option = {.connections = 1, .depth = 1, .seconds = 1, .settle_ns = 200000000, .pause_ns = 1000000};

static struct connection *connections;
static int poller, measuring, draining, waiting;
static uint32_t *histogram;
static uint64_t all_started, answers, all_answers, sent_bytes, all_bytes, received_bytes, retries, slowest;
static unsigned char read_buffer[READ_SIZE], write_buffer[READ_SIZE];

// ── What is sent ─────────────────────────────────────────────────────────────────────────────────

static void count_sent(size_t size) {
    all_bytes += size;
    if (measuring)
        sent_bytes += size;
}

static void want_write(struct connection *c, int wanted) {
    if (c->wants_write == wanted)
        return;
    c->wants_write = wanted;
    struct epoll_event event = {.events = EPOLLIN | (wanted ? EPOLLOUT : 0), .data.ptr = c};
    epoll_ctl(poller, EPOLL_CTL_MOD, c->stream.fd, &event);
}

static void started(struct connection *c, uint64_t now) {
    c->started[c->newest++ % MAX_IN_FLIGHT] = now;
    c->in_flight++;
    all_started++;
}

// Writes as many frames as may be in flight. Begins with the rest of a frame if the socket was full in its middle.
static void pump(struct connection *c) {
    while (c->sent || (!draining && c->in_flight < (unsigned)option.depth)) {
        size_t count = c->sent ? 1 : (size_t)option.depth - c->in_flight;
        if (!c->sent && option.answers && all_started + count > option.answers)
            count = option.answers - all_started;
        if (!count)
            break;
        if (c->next + count > frame_count)
            count = frame_count - c->next;
        size_t from = frame_at[c->next] + c->sent;
        ssize_t size = stream_send(&c->stream, tape + from, frame_at[c->next + count] - from);
        if (size < 0 && errno != EAGAIN)
            fail("send: %s", strerror(errno));
        if (size <= 0) {
            want_write(c, 1);
            return;
        }
        count_sent((size_t)size);
        uint64_t now = now_ns();
        size_t reached = from + (size_t)size;
        if (!c->sent)
            started(c, now);
        while (c->next < frame_count && frame_at[c->next + 1] <= reached) {
            c->next++;
            if (frame_at[c->next] < reached)
                started(c, now);
        }
        c->sent = reached - frame_at[c->next];
        if (c->next == frame_count)
            c->next = 0;
    }
    want_write(c, 0);
}

static void send_whole(struct connection *c, const unsigned char *bytes, size_t size) {
    if (stream_send(&c->stream, bytes, size) != (ssize_t)size)
        fail("send: %s", errno ? strerror(errno) : "the socket is full");
    count_sent(size);
}

static void send_step(struct connection *c) {
    struct entry *entry = &c->steps[c->step];
    patch(entry, ++c->correlation_id, c->sequence);
    if (c->step % option.unit == 0 && !c->in_flight)
        started(c, now_ns());
    send_whole(c, entry->bytes, entry->size);
}

// Sends as many requests of a producer as may be in flight, in one write.
static void pump_producer(struct connection *c) {
    size_t filled = 0;
    for (; !draining && c->in_flight < (unsigned)option.depth; c->step = (c->step + 1) % option.steps) {
        struct entry *entry = &c->steps[c->step];
        if (filled + entry->size > sizeof write_buffer)
            fail("%d requests of %zu bytes do not fit into one write", option.depth, entry->size);
        patch(entry, ++c->correlation_id, c->sequence);
        c->sequence += records_in(entry);
        memcpy(write_buffer + filled, entry->bytes, entry->size);
        filled += entry->size;
        started(c, now_ns());
    }
    if (filled)
        send_whole(c, write_buffer, filled);
}

static void send_more(struct connection *c) {
    if (option.mode == REPEAT)
        pump(c);
    else if (option.mode == PRODUCERS)
        pump_producer(c);
}

// ── What comes back ──────────────────────────────────────────────────────────────────────────────

static void finished(struct connection *c, uint64_t now) {
    uint64_t took = now - c->started[c->oldest++ % MAX_IN_FLIGHT];
    c->in_flight--;
    all_answers++;
    if (!measuring)
        return;
    answers++;
    slowest = took > slowest ? took : slowest;
    histogram[took / TICK_NS < TICKS ? took / TICK_NS : TICKS - 1]++;
}

// The first error code that is not 0. An error message may shift the positions of later codes.
static int error_in(struct connection *c, struct entry *entry) {
    for (uint32_t i = 0; i < entry->error_count; i++) {
        uint32_t at = entry->error_at[i];
        if (at + 2 > c->answer_size || at + 2 > ANSWER_HEAD)
            fail("an answer of %zu bytes has no error code at %u", c->answer_size, at);
        int error = (int16_t)(c->answer[at] << 8 | c->answer[at + 1]);
        if (error)
            return error;
    }
    return 0;
}

// The next transaction has another epoch, and its sequence numbers begin at 0.
static void renew(struct connection *c, const unsigned char *identity) {
    for (int i = 0; i < option.steps; i++)
        set_identity(&c->steps[i], identity);
    c->sequence = 0;
}

static void step_answered(struct connection *c, uint64_t now) {
    struct entry *entry = &c->steps[c->step];
    if (get32(c->answer + 4) != (uint32_t)c->correlation_id)
        fail("an answer to another request");
    int error = error_in(c, entry);
    if (error == CONCURRENT_TRANSACTIONS) {
        retries += (uint64_t)measuring;
        c->again_at = now + option.pause_ns;
        waiting++;
        return;
    }
    if (error)
        fail("error %d in step %d of a transaction", error, c->step);
    c->sequence += records_in(entry);
    if (entry->renewed_at)
        renew(c, c->answer + entry->renewed_at);
    c->step = (c->step + 1) % option.steps;
    if (c->step % option.unit == 0) {
        finished(c, now);
        if (draining)
            return;
    }
    send_step(c);
}

static void answered(struct connection *c, uint64_t now) {
    if (option.mode == STEPS) {
        step_answered(c, now);
        return;
    }
    // All requests of these modes have the same layout, and so have their responses.
    int error = error_in(c, &entries[0]);
    if (error)
        fail("error %d", error);
    finished(c, now);
}

// Handles `size` received bytes. Bytes that the kernel has discarded have no `data`.
static void take(struct connection *c, const unsigned char *data, size_t size) {
    uint64_t now = now_ns();
    for (size_t used = 0; used < size;) {
        size_t wanted = c->answer_got < 4 ? 4 : c->answer_size;
        size_t part = wanted - c->answer_got < size - used ? wanted - c->answer_got : size - used;
        if (c->answer_got < ANSWER_HEAD && data) {
            size_t kept = part < ANSWER_HEAD - c->answer_got ? part : ANSWER_HEAD - c->answer_got;
            memcpy(c->answer + c->answer_got, data + used, kept);
        }
        c->answer_got += part;
        used += part;
        if (c->answer_got == 4)
            c->answer_size = (size_t)get32(c->answer) + 4;
        if (c->answer_got >= 4 && c->answer_got == c->answer_size) {
            c->answer_got = 0;
            answered(c, now);
        }
    }
}

static void receive(struct connection *c) {
    for (;;) {
        size_t left = c->answer_got < ANSWER_HEAD ? 0 : c->answer_size - c->answer_got;
        int discard = left >= DISCARD_FROM;
        ssize_t size = stream_receive(&c->stream, read_buffer, discard ? left : READ_SIZE, discard);
        if (size < 0 && errno == EAGAIN)
            return;
        if (size <= 0)
            fail("recv: %s", size ? strerror(errno) : "the broker closed the connection");
        all_bytes += (uint64_t)size;
        if (measuring)
            received_bytes += (uint64_t)size;
        take(c, discard ? NULL : read_buffer, (size_t)size);
        if (!discard && size < READ_SIZE)
            return;
    }
}

// ── Connections and time ─────────────────────────────────────────────────────────────────────────

static void open_all(void) {
    connections = calloc((size_t)option.connections, sizeof *connections);
    poller = epoll_create1(0);
    for (int i = 0; i < option.connections; i++) {
        struct connection *c = &connections[i];
        c->stream = open_stream(option.port);
        if (option.mode != REPEAT)
            c->steps = &entries[i * option.steps];
        else
            c->next = (size_t)i * frame_count / (size_t)option.connections;
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
        epoll_ctl(poller, EPOLL_CTL_ADD, c->stream.fd, &event);
        option.mode == STEPS ? send_step(c) : send_more(c);
    }
}

static void try_again(uint64_t now) {
    for (int i = 0; waiting && i < option.connections; i++) {
        struct connection *c = &connections[i];
        if (!c->again_at || c->again_at > now)
            continue;
        c->again_at = 0;
        waiting--;
        send_step(c);
    }
}

static int all_quiet(void) {
    for (int i = 0; i < option.connections; i++)
        if (connections[i].in_flight)
            return 0;
    return 1;
}

// Returns the measured seconds, from the end of settling to the deadline. Then waits for the last responses.
static double run(void) {
    struct epoll_event events[EVENTS];
    uint64_t begin = now_ns(), from = 0, until = 0;
    for (;;) {
        int count = epoll_wait(poller, events, EVENTS, waiting ? 1 : 10);
        for (int i = 0; i < count; i++) {
            struct connection *c = events[i].data.ptr;
            if (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR))
                receive(c);
            send_more(c);
        }
        uint64_t now = now_ns();
        try_again(now);
        int settled = option.max_bytes && all_bytes >= option.max_bytes / SETTLE_SHARE;
        if (!from && (settled || now - begin >= option.settle_ns)) {
            from = now;
            measuring = 1;
        }
        int full = (option.max_bytes && all_bytes >= option.max_bytes) ||
                   (option.answers && all_started >= option.answers);
        if (measuring && (full || (double)(now - from) * 1e-9 >= option.seconds)) {
            until = now;
            measuring = 0;
            draining = 1;
        }
        if (draining && all_quiet())
            return (double)(until - from) * 1e-9;
        if (draining && now - until > DRAIN_SECONDS * 1000000000ull)
            fail("no answer for %d s", DRAIN_SECONDS);
    }
}

static double percentile_us(double share) {
    uint64_t wanted = (uint64_t)((double)answers * share), seen = 0;
    for (size_t tick = 0; tick < TICKS; tick++)
        if ((seen += histogram[tick]) > wanted)
            return ((double)tick + 0.5) * TICK_NS / 1000;
    return (double)slowest / 1000;
}

static void read_options(int count, char **words) {
    static const struct option names[] = {
        {"connections", 1, 0, 'c'}, {"depth", 1, 0, 'd'},     {"seconds", 1, 0, 's'},
        {"answers", 1, 0, 'a'},     {"steps", 1, 0, 'n'},     {"max-bytes", 1, 0, 'b'},
        {"settle-ms", 1, 0, 'w'},   {"pause-ms", 1, 0, 'p'},  {"unit", 1, 0, 'u'},
        {0, 0, 0, 0}};
    for (int name; (name = getopt_long(count, words, "", names, NULL)) != -1;)
        switch (name) {
        case 'c': option.connections = atoi(optarg); break;
        case 'd': option.depth = atoi(optarg); break;
        case 's': option.seconds = atof(optarg); break;
        case 'a': option.answers = strtoull(optarg, NULL, 10); break;
        case 'n': option.steps = atoi(optarg); break;
        case 'b': option.max_bytes = strtoull(optarg, NULL, 10); break;
        case 'w': option.settle_ns = strtoull(optarg, NULL, 10) * 1000000; break;
        case 'u': option.unit = atoi(optarg); break;
        case 'p': option.pause_ns = strtoull(optarg, NULL, 10) * 1000000; break;
        default: exit(2);
        }
    if (count - optind != 3 || option.depth < 1 || option.depth > MAX_IN_FLIGHT)
        fail("usage: loadgen repeat|producers|steps PORT FILE [--connections N] [--depth N] ...");
    const char *mode = words[optind];
    option.mode = !strcmp(mode, "steps") ? STEPS : !strcmp(mode, "producers") ? PRODUCERS : REPEAT;
    option.unit = option.unit ? option.unit : option.steps;
    if (option.mode != REPEAT && option.steps < 1)
        fail("%s: --steps is missing", mode);
    option.port = atoi(words[optind + 1]);
    option.file = words[optind + 2];
}

int main(int count, char **words) {
    read_options(count, words);
    read_entries(option.file);
    size_t needed = option.mode == REPEAT ? 1 : (size_t)option.connections * (size_t)option.steps;
    if (entry_count < needed)
        fail("%zu requests where %zu are needed", entry_count, needed);
    if (option.mode == REPEAT)
        make_tape();
    histogram = calloc(TICKS, sizeof *histogram);
    open_all();
    double seconds = run();
    printf("{\"seconds\": %.6f, \"answers\": %lu, \"all_answers\": %lu, \"sent_bytes\": %lu, "
           "\"received_bytes\": %lu, \"all_bytes\": %lu, \"retries\": %lu, \"p50_us\": %.1f, "
           "\"p99_us\": %.1f, \"max_us\": %.1f, \"load_cpu_seconds\": %.3f}\n",
           seconds, answers, all_answers, sent_bytes, received_bytes, all_bytes, retries,
           percentile_us(0.5), percentile_us(0.99), (double)slowest / 1000, own_cpu_seconds());
    return 0;
}
