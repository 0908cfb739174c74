// Requests that change before they are sent, and requests that are repeated as they are.

enum {
    TAPE_SIZE = 1 << 18,          // the tape repeats small requests, so that one write sends many
    CORRELATION_AT = 8,
    BATCH_LENGTH_AT = 8,
    BATCH_CRC_AT = 17,
    BATCH_ATTRIBUTES_AT = 21,
    BATCH_LAST_DELTA_AT = 23,
    BATCH_IDENTITY_AT = 43,
    BATCH_SEQUENCE_AT = 53,
    IDENTITY_SIZE = 10,           // producer id and epoch
    BATCH_OVERHEAD = 12,          // bytes that the length field of a batch does not count
};

static unsigned char *tape;
static size_t *frame_at, frame_count;          // frame i is tape[frame_at[i]] to tape[frame_at[i+1]]

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
