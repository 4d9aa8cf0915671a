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
    Self: quic::BidiStream<Bytes, SendStream: Send + 'static, RecvStream: Receiver>
        + quic::RecvStream<Buf: Send>,
{
}

/// The receiving direction of one request.
pub trait Receiver: quic::RecvStream<Buf: Send> + Send + 'static {
    /// Whether it may be stopped while a read is pending. Otherwise it is only dropped, which must stop it too.
    const STOPS_READS: bool;
}

impl Receiver for rc3_h3::RecvStream {
    const STOPS_READS: bool = true;
}

impl Receiver for h3_quinn::RecvStream {
    /// h3-quinn 0.0.10 panics (<https://github.com/hyperium/h3/issues/330>), and h3 reads ahead, so that nobody knows
    /// whether a read is pending. quinn stops a dropped stream with code 0, which means the same as H3_NO_ERROR.
    const STOPS_READS: bool = false;
}

impl Streams for rc3_h3::BidiStream<Bytes> {}
impl Streams for h3_quinn::BidiStream<Bytes> {}
impl Transport for rc3_h3::Connection {}
impl Transport for h3_quinn::Connection {}
