//! Connections that carry HTTP/3.

use bytes::Bytes;
use rc3_h3::h3::quic;

/// A connection of rc3 or of quinn, with the bounds that tasks of tokio need.
pub trait Transport: Send + 'static
where
    Self: quic::Connection<
            Bytes,
            OpenStreams: quic::OpenStreams<
                Bytes,
                BidiStream = <Self as quic::OpenStreams<Bytes>>::BidiStream,
                SendStream = <Self as quic::OpenStreams<Bytes>>::SendStream,
            > + Clone
                             + Send
                             + Sync,
            RecvStream: Send,
        > + quic::OpenStreams<Bytes, SendStream: Send, BidiStream: Streams>,
{
}

/// Both directions of one request.
pub trait Streams: Send + 'static
where
    Self: quic::BidiStream<
            Bytes,
            SendStream: Send + 'static,
            RecvStream: Send + quic::RecvStream<Buf: Send> + 'static,
        > + quic::RecvStream<Buf: Send>,
{
}

impl Streams for rc3_h3::BidiStream<Bytes> {}
impl Streams for h3_quinn::BidiStream<Bytes> {}
impl Transport for rc3_h3::Connection {}
impl Transport for h3_quinn::Connection {}
