//! Opening streams.

use std::{
    fmt,
    task::{Context, Poll},
};

use bytes::Buf;
use h3::{
    error::Code,
    quic::{self, StreamErrorIncoming},
};

use crate::{
    bidi_stream::BidiStream,
    error::{connection_lost, var_int},
    repeat::Repeat,
    send_stream::SendStream,
};

/// Most bytes of the reason of a close. h3 puts what it received into it, and it should fit into one packet.
const REASON_MAX: usize = 256;

/// Opens streams on an rc3 connection; h3's client sends its requests with it. Clones are handles to the same connection.
pub struct OpenStreams {
    pub(crate) connection: rc3_net::Connection,
    /// Most bytes of a header of a response.
    pub(crate) header_max: u64,
    bidi: Repeat<(rc3_net::SendStream, rc3_net::RecvStream)>,
    send: Repeat<rc3_net::SendStream>,
}

impl OpenStreams {
    pub(crate) fn new(connection: rc3_net::Connection, header_max: u64) -> Self {
        Self {
            connection,
            header_max,
            bidi: Repeat::new(|connection| Box::pin(async move { connection.open_bi().await })),
            send: Repeat::new(|connection| Box::pin(async move { connection.open_uni().await })),
        }
    }
}

impl Clone for OpenStreams {
    fn clone(&self) -> Self {
        Self::new(self.connection.clone(), self.header_max)
    }
}

impl fmt::Debug for OpenStreams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenStreams").field("connection", &self.connection).finish_non_exhaustive()
    }
}

impl<B: Buf> quic::OpenStreams<B> for OpenStreams {
    type BidiStream = BidiStream<B>;
    type SendStream = SendStream<B>;

    fn poll_open_bidi(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Self::BidiStream, StreamErrorIncoming>> {
        let opened = self.bidi.poll(cx, &self.connection);
        let wrap = |streams| BidiStream::opened(streams, self.connection.clone(), self.header_max);
        opened.map_ok(wrap).map_err(connection_lost)
    }

    fn poll_open_send(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Self::SendStream, StreamErrorIncoming>> {
        let opened = self.send.poll(cx, &self.connection);
        opened.map_ok(SendStream::unidirectional).map_err(connection_lost)
    }

    fn close(&mut self, code: Code, reason: &[u8]) {
        self.connection.close(var_int(code.value()), &reason[..reason.len().min(REASON_MAX)]);
    }
}
