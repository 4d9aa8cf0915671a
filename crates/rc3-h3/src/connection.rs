//! The connection.

use std::{
    fmt,
    task::{Context, Poll},
};

use bytes::Buf;
use h3::{
    error::Code,
    quic::{self, ConnectionErrorIncoming, StreamErrorIncoming},
};

use crate::{
    bidi_stream::BidiStream, error::connection_error, exchange::Exchange, guard::Guard,
    open_streams::OpenStreams, recv_stream::RecvStream, repeat::Repeat, send_stream::SendStream,
};

/// Most bytes of a header unless [`Connection::max_field_section_size`] changes that.
const HEADER_MAX: u64 = 64 * 1024;

/// With longer headers, the map of the crate http could get more fields than it may hold (24,576), and panics.
const HEADER_MAX_MAX: u64 = 768 * 1024;

/// An rc3 connection for `h3::server` and `h3::client`.
///
/// Keep a clone of the [`rc3_net::Connection`] for its statistics, its peer's address or [`rc3_net::Connection::is_rc3`].
pub struct Connection {
    opener: OpenStreams,
    bidi: Repeat<(rc3_net::SendStream, rc3_net::RecvStream)>,
    recv: Repeat<rc3_net::RecvStream>,
}

impl Connection {
    /// Wraps an established connection.
    pub fn new(connection: rc3_net::Connection) -> Self {
        Self {
            opener: OpenStreams::new(connection, HEADER_MAX),
            bidi: Repeat::new(|connection| Box::pin(async move { connection.accept_bi().await })),
            recv: Repeat::new(|connection| Box::pin(async move { connection.accept_uni().await })),
        }
    }

    /// Refuses headers and trailers of more bytes, encoded or as RFC 9114 §4.2.2 counts them, before they are stored;
    /// 64 KiB by default, at most 768 KiB.
    ///
    /// The setting of the same name in h3 announces a limit to the peer, and answers requests beyond it with status
    /// 431. It should not be larger than this one, which resets their streams with `H3_EXCESSIVE_LOAD`.
    #[must_use]
    pub fn max_field_section_size(mut self, bytes: u64) -> Self {
        self.opener = OpenStreams::new(self.opener.connection.clone(), bytes.min(HEADER_MAX_MAX));
        self
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("connection", &self.opener.connection).finish_non_exhaustive()
    }
}

impl<B: Buf> quic::Connection<B> for Connection {
    type RecvStream = RecvStream;
    type OpenStreams = OpenStreams;

    fn poll_accept_recv(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Self::RecvStream, ConnectionErrorIncoming>> {
        let accepted = self.recv.poll(cx, &self.opener.connection);
        let wrap = |stream| {
            let connection = self.opener.connection.clone();
            RecvStream::new(stream, connection, Guard::of_unidirectional(), Exchange::default())
        };
        accepted.map_ok(wrap).map_err(connection_error)
    }

    fn poll_accept_bidi(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Self::BidiStream, ConnectionErrorIncoming>> {
        let accepted = self.bidi.poll(cx, &self.opener.connection);
        let wrap =
            |streams| BidiStream::accepted(streams, self.opener.connection.clone(), self.opener.header_max);
        accepted.map_ok(wrap).map_err(connection_error)
    }

    fn opener(&self) -> Self::OpenStreams {
        self.opener.clone()
    }
}

impl<B: Buf> quic::OpenStreams<B> for Connection {
    type BidiStream = BidiStream<B>;
    type SendStream = SendStream<B>;

    fn poll_open_bidi(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Self::BidiStream, StreamErrorIncoming>> {
        self.opener.poll_open_bidi(cx)
    }

    fn poll_open_send(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Self::SendStream, StreamErrorIncoming>> {
        self.opener.poll_open_send(cx)
    }

    fn close(&mut self, code: Code, reason: &[u8]) {
        quic::OpenStreams::<B>::close(&mut self.opener, code, reason);
    }
}
