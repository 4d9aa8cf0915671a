//! The seam between rc3 and the congestion-controlled transport that serves as its primary loop (RC3 §2.1).
//!
//! Everything rc3 asks of that transport is in [`Primary`]. The one implementation for real traffic is
//! [`quinn::Quic`]; tests put simpler ones behind the same trait.

pub(crate) mod departures;
pub(crate) mod feeding;
pub(crate) mod fragments;
pub mod quinn;

use std::{
    net::{IpAddr, SocketAddr},
    time::Instant,
};

use bytes::Bytes;

pub use quinn::{ReadEnd as StreamReadEnd, WriteError as StreamWriteError};

use crate::{
    quic::{ConnectionError, Dir, StreamId, VarInt},
    stats::PathStats,
};

/// One connection of an ordinary reliable, congestion-controlled transport with streams.
///
/// Bytes written to it are its own from then on: they cannot be withdrawn, and it answers for them.
pub trait Primary {
    /// What happened since the last call, oldest first.
    fn poll_event(&mut self) -> Option<PrimaryEvent>;

    /// When [`Self::handle_timeout`] wants to be called.
    fn poll_timeout(&mut self) -> Option<Instant>;

    /// A deadline named by [`Self::poll_timeout`] has passed.
    fn handle_timeout(&mut self, now: Instant);

    /// Writes up to `datagrams_max` datagrams of equal length (the last may be shorter) into the empty `buf`.
    fn poll_transmit(
        &mut self,
        now: Instant,
        datagrams_max: usize,
        buf: &mut Vec<u8>,
    ) -> Option<PrimaryTransmit>;

    /// The congestion window as it stands.
    fn window(&self) -> Window;

    /// Whether the application, not the window, holds the sender back: such acks must not open the window
    /// (RFC 9002 §7.8). Known only to whoever feeds late.
    fn set_app_limited(&mut self, app_limited: bool);

    /// Opens a stream, or `None` while the peer's limit is reached.
    fn open(&mut self, dir: Dir) -> Option<StreamId>;

    /// The next stream the peer opened, in order.
    fn accept(&mut self, dir: Dir) -> Option<StreamId>;

    /// Hands bytes over; returns how many were taken, from the front.
    fn write(&mut self, id: StreamId, chunks: &mut [Bytes]) -> Result<usize, StreamWriteError>;

    /// Ends the sending part of a stream.
    fn end(&mut self, id: StreamId, how: End);

    /// Appends the next bytes of a stream with their offsets to `chunks`, in order or the lowest there are, until
    /// they are `max` bytes or more, and says why it stopped. A stream is read one way from first to last.
    fn read(
        &mut self,
        id: StreamId,
        max: usize,
        ordered: bool,
        chunks: &mut Vec<(u64, Bytes)>,
    ) -> StreamReadEnd;

    /// Tells the peer that nobody reads this stream any more.
    fn stop(&mut self, id: StreamId, code: VarInt);

    /// What is known about the path.
    fn path(&self) -> PathStats;
}

/// How the sending part of a stream ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// All bytes were written.
    Finish,
    /// The rest is given up, with the application's code.
    Reset(VarInt),
}

/// One call's worth of datagrams from the primary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PrimaryTransmit {
    /// Where to.
    pub destination: SocketAddr,
    /// From which local address, if it matters.
    pub source: Option<IpAddr>,
    /// ECN bits of the IP header.
    pub ecn: u8,
    /// Total length in bytes.
    pub size: usize,
    /// Length of each datagram but the last, when there are several.
    pub segment_size: Option<usize>,
    /// Whether routers may not fragment it.
    pub dont_fragment: bool,
}

/// The primary's congestion window, for feeding it late.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// Congestion window in bytes.
    pub cwnd: u64,
    /// Bytes in flight.
    pub in_flight: u64,
    /// Largest UDP payload in bytes.
    pub mtu: u16,
    /// What the bytes written and not yet in a packet wait for, as of the last [`Primary::poll_transmit`] that
    /// returned `None`.
    pub waiting: Waiting,
    /// Full packets that pacing lets go within a moment, where a rate is told; otherwise quinn-proto paces, and this is
    /// no bound.
    pub due: u64,
}

/// What written bytes wait for before they go into a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waiting {
    /// None are waiting: all are in packets.
    Nothing,
    /// For the window: a round trip perhaps.
    ForWindow,
    /// For the pacer: a moment. Or nothing was written and asked since.
    ForPacer,
}

impl Window {
    /// How many full packets the window lets go now.
    ///
    /// quinn-proto sends while `in_flight + mtu < cwnd`.
    pub fn packets(&self) -> u64 {
        self.cwnd.saturating_sub(self.in_flight + 1) / u64::from(self.mtu)
    }
}

/// What a [`Primary`] reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PrimaryEvent {
    /// The ALPN protocol is agreed.
    Negotiated,
    /// The handshake is complete.
    Connected,
    /// The connection is gone.
    Lost(ConnectionError),
    /// The peer opened streams.
    Opened(Dir),
    /// The peer's limit allows more streams.
    Available(Dir),
    /// A stream has bytes, an end or a reset to read.
    Readable(StreamId),
    /// A stream that refused bytes takes them again.
    Writable(StreamId),
    /// The peer has acknowledged all of a finished stream.
    Finished(StreamId),
    /// The peer no longer reads a stream.
    Stopped(StreamId, VarInt),
    /// An application datagram came, and none was waiting before.
    DatagramReceived,
    /// Application datagrams that waited have left.
    DatagramsUnblocked,
}
