// The byte stream of a connection to a broker: a socket, or TLS 1.3 on it if WITH_TLS is defined.

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>

#ifdef WITH_TLS
#include <openssl/err.h>
#include <openssl/ssl.h>
#endif

enum { READ_SIZE = 1 << 18 };

struct stream {
    int fd;
#ifdef WITH_TLS
    SSL *tls;
    size_t held;                  // the bytes that OpenSSL could not send, and wants again
#endif
};

#ifdef WITH_TLS
// The broker's certificate is not checked: that is part of the handshake, which is not measured.
static SSL *new_tls(int fd) {
    static SSL_CTX *context;
    if (!context) {
        context = SSL_CTX_new(TLS_client_method());
        SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION);
        SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
        SSL_CTX_set_read_ahead(context, 1);
        SSL_CTX_set_default_read_buffer_len(context, READ_SIZE);
    }
    SSL *tls = SSL_new(context);
    SSL_set_fd(tls, fd);
    if (SSL_connect(tls) != 1)
        fail("no handshake: %s", ERR_error_string(ERR_get_error(), NULL));
    return tls;
}

// Returns 0 at the end of the stream, else -1 with errno as a socket has it.
static ssize_t tls_outcome(SSL *tls, int result) {
    int reason = SSL_get_error(tls, result);
    if (reason == SSL_ERROR_ZERO_RETURN)
        return 0;
    if (reason != SSL_ERROR_WANT_READ && reason != SSL_ERROR_WANT_WRITE)
        fail("TLS: %s", ERR_error_string(ERR_get_error(), NULL));
    errno = EAGAIN;
    return -1;
}
#endif

// Connects, and makes the stream non-blocking.
static struct stream open_stream(int port) {
    struct stream stream = {.fd = connected_socket(port)};
#ifdef WITH_TLS
    stream.tls = new_tls(stream.fd);
#endif
    fcntl(stream.fd, F_SETFL, O_NONBLOCK);
    return stream;
}

// As send(2). If a part of the bytes was sent, the next call must begin with the rest. With TLS it may then send
// more than `size`: all bytes of the earlier call.
static ssize_t stream_send(struct stream *stream, const unsigned char *bytes, size_t size) {
#ifdef WITH_TLS
    size_t sent = 0, all = size > stream->held ? size : stream->held;
    for (stream->held = 0; sent < all;) {
        int result = SSL_write(stream->tls, bytes + sent, (int)(all - sent));
        if (result <= 0) {
            stream->held = all - sent;
            return sent ? (ssize_t)sent : tls_outcome(stream->tls, result);
        }
        sent += (size_t)result;
    }
    return (ssize_t)sent;
#else
    return send(stream->fd, bytes, size, MSG_NOSIGNAL);
#endif
}

// As recv(2). With `discard`, the kernel drops the bytes if there is no TLS, and `buffer` has none of them.
static ssize_t stream_receive(struct stream *stream, unsigned char *buffer, size_t size, int discard) {
#ifdef WITH_TLS
    (void)discard;
    size_t got = 0, most = size < READ_SIZE ? size : READ_SIZE;
    while (got < most) {
        int result = SSL_read(stream->tls, buffer + got, (int)(most - got));
        if (result <= 0)
            return got ? (ssize_t)got : tls_outcome(stream->tls, result);
        got += (size_t)result;
    }
    return (ssize_t)got;
#else
    return recv(stream->fd, buffer, size, discard ? MSG_TRUNC : 0);
#endif
}
