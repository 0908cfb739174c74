// The requests that the load generator sends, ready-made by the program that calls it.
//
// A file is a sequence of entries, integers big-endian:
//   uint32  where the int16 error code stands in the answer, counted from its size field
//   uint32  where a record batch stands in the request, or 0: its sequence can be kept going
//   uint32  where a producer id and its epoch stand in the request, or 0: they are kept current
//   uint32  where the next ones stand in the answer, counted from its size field, or 0
//   uint32  size, and so many bytes: the request, without its own size field

#include <endian.h>
#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    TAPE_SIZE = 1 << 18,          // small requests are repeated on the tape: many leave in one write
    CORRELATION_AT = 8,
    REQUEST_SIZE_FIELD = 4,
    BATCH_LENGTH_AT = 8,
    BATCH_CRC_AT = 17,
    BATCH_ATTRIBUTES_AT = 21,
    BATCH_SEQUENCE_AT = 53,
    IDENTITY_SIZE = 10,           // producer id and epoch
    BATCH_OVERHEAD = 12,          // what the length of a batch does not count
};

struct entry {
    uint32_t error_at, batch_at, identity_at, renewed_at;
    size_t size;
    unsigned char *bytes;         // with the size field before it
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

// Gives a request its correlation id and, if it carries a batch, that one its sequence and CRC.
static void patch(struct entry *entry, int32_t correlation_id, int32_t sequence) {
    put32(entry->bytes + CORRELATION_AT, (uint32_t)correlation_id);
    if (!entry->batch_at)
        return;
    unsigned char *batch = entry->bytes + REQUEST_SIZE_FIELD + entry->batch_at;
    size_t size = get32(batch + BATCH_LENGTH_AT) + BATCH_OVERHEAD - BATCH_ATTRIBUTES_AT;
    put32(batch + BATCH_SEQUENCE_AT, (uint32_t)sequence);
    put32(batch + BATCH_CRC_AT, crc32c(batch + BATCH_ATTRIBUTES_AT, size));
}

static void read_entries(const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file)
        fail("%s: %s", path, strerror(errno));
    unsigned char head[20];
    for (size_t room = 0; fread(head, 1, sizeof head, file) == sizeof head; entry_count++) {
        if (entry_count == room && !(entries = realloc(entries, (room = room * 2 + 16) * sizeof *entries)))
            fail("out of memory");
        size_t size = get32(head + 16);
        unsigned char *bytes = malloc(size + REQUEST_SIZE_FIELD);
        if (!bytes || fread(bytes + REQUEST_SIZE_FIELD, 1, size, file) != size)
            fail("%s is cut off", path);
        put32(bytes, (uint32_t)size);
        entries[entry_count] = (struct entry){get32(head),      get32(head + 4), get32(head + 8),
                                              get32(head + 12), size + REQUEST_SIZE_FIELD, bytes};
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
        position += entry->size;
    }
    frame_at[frame_count] = position;
}
