// The requests that the load generator sends. The calling program has made them.
//
// A file is a sequence of entries, integers big-endian:
//   uint32  position of a producer id and its epoch in the request, outside of its batches, or 0
//   uint32  position of the next id and epoch in the response, counted from its size field, or 0
//   uint32  number of error codes (int16) in the response, at least 1
//   uint32  number of record batches with a sequence in the request; all have the same number of records
//   uint32  size of the request
//   uint32  position of each error code, counted from the size field of the response
//   uint32  position of each batch in the request
//   the request, without its own size field

#include <endian.h>
#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    TAPE_SIZE = 1 << 18,          // the tape repeats small requests, so that one write sends many
    CORRELATION_AT = 8,
    REQUEST_SIZE_FIELD = 4,
    BATCH_LENGTH_AT = 8,
    BATCH_CRC_AT = 17,
    BATCH_ATTRIBUTES_AT = 21,
    BATCH_LAST_DELTA_AT = 23,
    BATCH_IDENTITY_AT = 43,
    BATCH_SEQUENCE_AT = 53,
    IDENTITY_SIZE = 10,           // producer id and epoch
    BATCH_OVERHEAD = 12,          // bytes that the length field of a batch does not count
};

struct entry {
    uint32_t identity_at, renewed_at, error_count, batch_count, *error_at, *batch_at;
    size_t size;
    unsigned char *bytes;         // including the size field before the request
};

static struct entry *entries;
static size_t entry_count;
static unsigned char *tape;
static size_t *frame_at, frame_count;          // frame i is tape[frame_at[i]] to tape[frame_at[i+1]]

static void fail(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "loadgen: ");
    vfprintf(stderr, format, arguments);
    fprintf(stderr, "\n");
    exit(1);
}

static uint32_t get32(const unsigned char *at) {
    uint32_t value;
    memcpy(&value, at, 4);
    return be32toh(value);
}

static void put32(unsigned char *at, uint32_t value) {
    value = htobe32(value);
    memcpy(at, &value, 4);
}

static uint32_t crc32c(const unsigned char *at, size_t size) {
    static uint32_t crc_table[256];
    for (uint32_t i = 0; !crc_table[255] && i < 256; i++) {
        crc_table[i] = i;
        for (int bit = 0; bit < 8; bit++)
            crc_table[i] = crc_table[i] >> 1 ^ (crc_table[i] & 1 ? 0x82f63b78 : 0);
    }
    uint32_t crc = ~0u;
    while (size--)
        crc = crc_table[(crc ^ *at++) & 255] ^ crc >> 8;
    return ~crc;
}

static unsigned char *batch_of(struct entry *entry, uint32_t number) {
    return entry->bytes + REQUEST_SIZE_FIELD + entry->batch_at[number];
}

// Gives a request its correlation id, and each of its batches the sequence and the CRC.
static void patch(struct entry *entry, int32_t correlation_id, int32_t sequence) {
    put32(entry->bytes + CORRELATION_AT, (uint32_t)correlation_id);
    for (uint32_t i = 0; i < entry->batch_count; i++) {
        unsigned char *batch = batch_of(entry, i);
        size_t size = get32(batch + BATCH_LENGTH_AT) + BATCH_OVERHEAD - BATCH_ATTRIBUTES_AT;
        put32(batch + BATCH_SEQUENCE_AT, (uint32_t)sequence);
        put32(batch + BATCH_CRC_AT, crc32c(batch + BATCH_ATTRIBUTES_AT, size));
    }
}

// The number of sequence numbers that a request uses in each of its partitions.
static int32_t records_in(struct entry *entry) {
    return entry->batch_count ? (int32_t)get32(batch_of(entry, 0) + BATCH_LAST_DELTA_AT) + 1 : 0;
}

static void set_identity(struct entry *entry, const unsigned char *identity) {
    for (uint32_t i = 0; i < entry->batch_count; i++)
        memcpy(batch_of(entry, i) + BATCH_IDENTITY_AT, identity, IDENTITY_SIZE);
    if (entry->identity_at)
        memcpy(entry->bytes + REQUEST_SIZE_FIELD + entry->identity_at, identity, IDENTITY_SIZE);
}

static uint32_t *read_positions(FILE *file, uint32_t count) {
    uint32_t *positions = malloc((count + 1) * sizeof *positions);
    if (!positions || fread(positions, sizeof *positions, count, file) != count)
        fail("the file of requests is cut off");
    for (uint32_t i = 0; i < count; i++)
        positions[i] = be32toh(positions[i]);
    return positions;
}

static void read_entries(const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file)
        fail("%s: %s", path, strerror(errno));
    unsigned char head[20];
    for (size_t room = 0; fread(head, 1, sizeof head, file) == sizeof head; entry_count++) {
        if (entry_count == room && !(entries = realloc(entries, (room = room * 2 + 16) * sizeof *entries)))
            fail("out of memory");
        struct entry entry = {.identity_at = get32(head), .renewed_at = get32(head + 4),
                              .error_count = get32(head + 8), .batch_count = get32(head + 12)};
        size_t size = get32(head + 16);
        entry.error_at = read_positions(file, entry.error_count);
        entry.batch_at = read_positions(file, entry.batch_count);
        entry.size = size + REQUEST_SIZE_FIELD;
        entry.bytes = malloc(entry.size);
        if (!entry.bytes || fread(entry.bytes + REQUEST_SIZE_FIELD, 1, size, file) != size)
            fail("%s is cut off", path);
        put32(entry.bytes, (uint32_t)size);
        entries[entry_count] = entry;
    }
    fclose(file);
}

static void make_tape(void) {
    size_t once = 0;
    for (size_t i = 0; i < entry_count; i++)
        once += entries[i].size;
    size_t times = once < TAPE_SIZE ? TAPE_SIZE / once : 1;
    tape = malloc(once * times);
    frame_at = malloc((entry_count * times + 1) * sizeof *frame_at);
    if (!tape || !frame_at)
        fail("out of memory");
    size_t position = 0;
    for (size_t i = 0; i < entry_count * times; i++) {
        struct entry *entry = &entries[i % entry_count];
        frame_at[frame_count++] = position;
        memcpy(tape + position, entry->bytes, entry->size);
        put32(tape + position + CORRELATION_AT, (uint32_t)i);
        position += entry->size;
    }
    frame_at[frame_count] = position;
}
