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
    bidi_stream::BidiStream, error::connection_error, open_streams::OpenStreams, recv_stream::RecvStream,
    repeat::Repeat, send_stream::SendStream,
};

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
            opener: OpenStreams::new(connection),
            bidi: Repeat::new(|connection| Box::pin(async move { connection.accept_bi().await })),
            recv: Repeat::new(|connection| Box::pin(async move { connection.accept_uni().await })),
        }
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("connection", self.opener.connection()).finish_non_exhaustive()
    }
}

impl<B: Buf> quic::Connection<B> for Connection {
    type RecvStream = RecvStream;
    type OpenStreams = OpenStreams;

    fn poll_accept_recv(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Self::RecvStream, ConnectionErrorIncoming>> {
        let accepted = self.recv.poll(cx, self.opener.connection());
        accepted.map_ok(RecvStream::new).map_err(connection_error)
    }

    fn poll_accept_bidi(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Self::BidiStream, ConnectionErrorIncoming>> {
        let accepted = self.bidi.poll(cx, self.opener.connection());
        accepted.map_ok(BidiStream::new).map_err(connection_error)
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
