//! Both directions of a stream.

use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use h3::quic::{self, StreamErrorIncoming, StreamId, WriteBuf};

use crate::{
    exchange::Exchange,
    guard::{Guard, HttpMessage},
    recv_stream::RecvStream,
    send_stream::SendStream,
};

type Halves = (rc3_net::SendStream, rc3_net::RecvStream);

/// A request and its response.
#[derive(Debug)]
pub struct BidiStream<B: Buf> {
    send: SendStream<B>,
    recv: RecvStream,
}

impl<B: Buf> BidiStream<B> {
    /// A server's end.
    pub(crate) fn accepted(streams: Halves, connection: rc3_net::Connection, header_max: u64) -> Self {
        Self::new(streams, connection, Guard::of_message(HttpMessage::request(), header_max), false)
    }

    /// A client's end.
    pub(crate) fn opened(streams: Halves, connection: rc3_net::Connection, header_max: u64) -> Self {
        Self::new(streams, connection, Guard::of_message(HttpMessage::response(), header_max), true)
    }

    fn new((send, recv): Halves, connection: rc3_net::Connection, guard: Guard, is_request: bool) -> Self {
        let exchange = Exchange::default();
        let send = SendStream::new(send, exchange.clone(), is_request);
        Self { send, recv: RecvStream::new(recv, connection, guard, exchange) }
    }
}

impl<B: Buf> quic::BidiStream<B> for BidiStream<B> {
    type SendStream = SendStream<B>;
    type RecvStream = RecvStream;

    fn split(self) -> (Self::SendStream, Self::RecvStream) {
        (self.send, self.recv)
    }
}

impl<B: Buf> quic::SendStream<B> for BidiStream<B> {
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        self.send.poll_ready(cx)
    }

    fn send_data<T: Into<WriteBuf<B>>>(&mut self, data: T) -> Result<(), StreamErrorIncoming> {
        self.send.send_data(data)
    }

    fn poll_finish(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        self.send.poll_finish(cx)
    }

    fn reset(&mut self, reset_code: u64) {
        self.send.reset(reset_code);
    }

    fn send_id(&self) -> StreamId {
        self.send.send_id()
    }
}

impl<B: Buf> quic::RecvStream for BidiStream<B> {
    type Buf = Bytes;

    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, StreamErrorIncoming>> {
        self.recv.poll_data(cx)
    }

    fn stop_sending(&mut self, error_code: u64) {
        self.recv.stop_sending(error_code);
    }

    fn recv_id(&self) -> StreamId {
        self.recv.recv_id()
    }
}
