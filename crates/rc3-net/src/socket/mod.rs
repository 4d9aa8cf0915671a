//! UDP sockets that carry the marks: readiness, batches, what the kernel can do and what it did.
//!
//! Owns the two sockets of an endpoint and the options that the kernel needs for them. On Linux one
//! `sendmsg` sends up to [`MAX_GSO_SEGMENTS`] datagrams with one DSCP, ECN and queue priority; one `recvmmsg`
//! receives up to [`RECV_MESSAGES_MAX`] batches. Elsewhere it is one datagram per call and no marks.
//!
//! Invariant: nothing that arrives from the network makes a socket unusable. What a destination or a router
//! did wrong is counted as a drop, as if the network had lost the datagram.
//!
//! Addresses are canonical on both sides: an IPv4 peer is an IPv4 address, also on a dual-stack socket. Sizes
//! are in bytes of UDP payload unless said otherwise.

use std::{
    io,
    net::{IpAddr, SocketAddr},
};

#[cfg(all(test, target_os = "linux"))]
pub(crate) use self::sys::Fault;
pub use self::{
    asynchronous::AsyncSocket,
    batch::{Datagram, Datagrams, RECV_MESSAGES_MAX, RecvBatch, RecvMeta},
    stats::Stats,
};

mod asynchronous;
mod batch;
mod stats;
#[expect(unsafe_code, reason = "the one place that talks to the kernel without a safe wrapper")]
mod sys;

/// How many datagrams one send may carry: `UDP_MAX_SEGMENTS` of Linux up to 6.8; later kernels take 128.
pub const MAX_GSO_SEGMENTS: usize = 64;

/// How many bytes one send may carry: the largest UDP payload of IPv4, 65,535 less 20 of IP and 8 of UDP.
pub const MAX_GSO_BYTES: usize = rc3_core::BATCH_BYTES_MAX;

/// What to ask of the kernel for a socket. What it granted is in [`Capabilities`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Bytes asked for with `SO_RCVBUF`. Linux doubles the number and takes about 2.3 KB of it per full
    /// datagram, so the default of 4 MiB holds about 3600: 40 ms at 1 Gbit/s, enough to sit out a busy
    /// scheduler.
    pub recv_buffer: usize,
    /// Bytes asked for with `SO_SNDBUF`, doubled likewise. The default of 1 MiB takes 32 batches of 44 full
    /// datagrams: low-priority data in the queue, one more batch of it and a burst of the primary loop have
    /// room together, and on a slow link the buffer is not yet a second of delay.
    pub send_buffer: usize,
    /// Let the kernel (or the card) cut one big send into datagrams. Saves most of the cost of sending.
    pub gso: bool,
    /// Let the kernel join equal datagrams of one flow before they are received.
    pub gro: bool,
    /// Attach the queue priority to each packet. Linux can since 6.14; where it cannot, or with `false`, the
    /// marks are set on the socket itself whenever they change. That costs three more system calls per
    /// change, not per packet.
    pub priority_cmsg: bool,
    /// When to open a packet socket, which sees the exact length of leading fragments.
    pub packet_socket: PacketSocket,
}

/// When to open a packet socket beside a UDP socket.
///
/// Kick-Ass routers signal a rate by the length of a datagram's leading fragment. Linux reports the length of the
/// longest fragment to every socket; with two fragments, the leading one follows from it; a packet socket sees it, and needs
/// `CAP_NET_RAW`. It takes nothing but leading fragments of datagrams to the same port, and costs every packet that the host
/// receives or sends some tens of nanoseconds. Where it cannot be had, or shows nothing, lengths are concluded. Which it has
/// become is in [`Capabilities::leading_lens`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PacketSocket {
    /// Never.
    Never,
    /// Once a datagram has come in fragments, with the rights of then.
    #[default]
    OnDemand,
    /// When the UDP socket is bound, with the rights of then: for processes that drop them afterwards, and for rates from
    /// the first datagram on. With the descriptor frames can also be sent: a process that is taken over later can
    /// do that, although it could not open one any more.
    AtBind,
}

/// How the lengths of leading fragments are learned, see [`RecvMeta::leading_len`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeadingLens {
    /// Seen by a packet socket. Where that has missed one, and over IPv6, as [`Self::Concluded`].
    Exact,
    /// Concluded from the length of the longest: right for two fragments. With more it is that of another one, where the
    /// leading is not the longest.
    Concluded,
    /// Not at all.
    Unknown,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            recv_buffer: 4 << 20,
            send_buffer: 1 << 20,
            gso: true,
            gro: true,
            priority_cmsg: true,
            packet_socket: PacketSocket::default(),
        }
    }
}

/// One send: a datagram, or several of equal length (the last may be shorter) to one destination with one set
/// of marks. Levels must not be mixed: the receiving host steers and routers mark the batch as a whole.
#[derive(Debug, Clone, Copy)]
pub struct Outgoing<'a> {
    /// Where to.
    pub destination: SocketAddr,
    /// Local address to send from; `None` lets the routing table choose. Same family as the destination.
    pub source: Option<IpAddr>,
    /// Explicit congestion notification, 0 to 3 (RFC 3168 §5).
    pub ecn: u8,
    /// Differentiated services code point, 0 to 63.
    pub dscp: u8,
    /// Priority in the host's own queue, see [`crate::marks`]; `None` for the kernel's choice.
    pub priority: Option<u32>,
    /// The payload, at most [`MAX_GSO_BYTES`].
    pub contents: &'a [u8],
    /// Length of each datagram but the last; `None` for one datagram. At most [`MAX_GSO_SEGMENTS`] datagrams.
    pub segment_size: Option<usize>,
    /// Whether routers may not fragment it. They may only one datagram at a time, since those of a batch share IP
    /// identifications with the next batch. Without effect in IPv6, where routers never may, and where the system has no
    /// such choice.
    pub dont_fragment: bool,
}

impl Outgoing<'_> {
    /// The segment size when there really is more than one datagram.
    fn checked_segment(&self) -> io::Result<Option<usize>> {
        let invalid = |what| Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        if self.ecn > 3 || self.dscp > 63 {
            return invalid("marks out of range, ecn has two bits and dscp six");
        }
        if self
            .source
            .is_some_and(|source| source.is_ipv4() != self.destination.ip().to_canonical().is_ipv4())
        {
            return invalid("source and destination differ in family, leave the source out");
        }
        if self.contents.len() > MAX_GSO_BYTES {
            return invalid("more than 65507 bytes in one send, make the batch shorter");
        }
        match self.segment_size {
            Some(_) if !self.dont_fragment => {
                invalid("a batch that may be fragmented, send its datagrams singly")
            }
            Some(0) => invalid("segment size is zero, leave it out for one datagram"),
            Some(size) if self.contents.len().div_ceil(size) > MAX_GSO_SEGMENTS => {
                invalid("more than 64 datagrams in one send, make the batch shorter")
            }
            Some(size) if size < self.contents.len() => Ok(Some(size)),
            Some(_) | None => Ok(None),
        }
    }
}

/// What a socket can do. Probed when it was bound; the send abilities may be lost later, when a route refuses
/// them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Capabilities {
    /// Datagrams worth putting into one send: [`MAX_GSO_SEGMENTS`], or 1 without segmentation offload.
    pub gso_segments_max: usize,
    /// Whether equal datagrams may arrive joined.
    pub gro: bool,
    /// Whether DSCP and ECN are sent and reported.
    pub dscp: bool,
    /// Whether queue priorities are honoured at all, per packet or through the socket.
    pub so_priority: bool,
    /// Whether they can change with every packet at no cost. Without, keep levels apart in long runs.
    pub priority_cmsg: bool,
    /// How the lengths of leading IPv4 fragments are learned.
    pub leading_lens: LeadingLens,
    /// Receive buffer as the kernel counts it, in bytes of its own memory; on Linux twice what was granted.
    pub recv_buffer: usize,
    /// Send buffer in the same unit, which is that of [`Socket::queued_bytes`] too.
    pub send_buffer: usize,
}

/// A non-blocking UDP socket, usable without a runtime. [`AsyncSocket`] adds the wake-ups.
#[derive(Debug)]
pub struct Socket {
    io: socket2::Socket,
    state: sys::State,
}

impl Socket {
    /// Binds one socket for all levels, without steering.
    ///
    /// `[::]` also takes IPv4 where the system allows.
    ///
    /// # Errors
    /// [`io::ErrorKind::AddrInUse`] if the port is taken, [`io::ErrorKind::AddrNotAvailable`] if this host does not have
    /// the address, another [`io::Error`] if the kernel lacks an option that has no fallback.
    pub fn bind_plain(address: SocketAddr, options: &Options) -> io::Result<Self> {
        let (io, state) = sys::open(address, options)?;
        Ok(Self { io, state })
    }

    /// Sends one [`Outgoing`], whole, now.
    ///
    /// Where segmentation offload is refused (`EIO`, `EINVAL`) it is switched off for this socket and the
    /// batch goes out as single datagrams; a refused priority is left away likewise. If the send buffer fills
    /// up in the midst of such singles, the rest is dropped and counted: repeating the whole would send some
    /// of it twice.
    ///
    /// A datagram that the kernel or the path cannot take, such as an unreachable host (`EHOSTUNREACH`), a
    /// late `ECONNREFUSED`, one longer than the link allows (`EMSGSIZE`) or a full queue discipline
    /// (`ENOBUFS`), counts as lost, see [`Stats::send_drops`], and is no error.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] when the send buffer is full, nothing was sent;
    /// [`io::ErrorKind::InvalidInput`] when `out` breaks a limit stated on it or has an IPv6 destination on
    /// an IPv4 socket; anything else means that the socket is unusable.
    pub fn try_send(&self, out: &Outgoing<'_>) -> io::Result<()> {
        self.state.send(&self.io, out)
    }

    /// Receives what is there, up to [`RECV_MESSAGES_MAX`] messages of one or more datagrams each, and
    /// returns the number of messages. What was left in `batch` from before is discarded.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] when nothing is there; anything else means that the socket is unusable.
    pub fn try_recv(&self, batch: &mut RecvBatch) -> io::Result<usize> {
        self.state.recv(&self.io, batch)
    }

    /// Memory of datagrams sent but not yet taken by the network card, in the unit of
    /// [`Capabilities::send_buffer`]. About 2.3 KB per full datagram; 0 where the system does not tell (or a
    /// path never pushes back).
    pub fn queued_bytes(&self) -> usize {
        sys::queued_bytes(&self.io)
    }

    /// The bound address.
    ///
    /// # Errors
    /// An [`io::Error`] if the kernel cannot report it.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        local_addr(&self.io)
    }

    /// What the socket can do by now.
    pub fn capabilities(&self) -> Capabilities {
        self.state.capabilities()
    }

    /// What the socket has done so far.
    pub fn stats(&self) -> Stats {
        self.state.stats(&self.io)
    }
}

#[cfg(unix)]
impl std::os::fd::AsFd for Socket {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.io.as_fd()
    }
}

/// The sockets of one endpoint, bound to one address.
///
/// On Linux the kernel steers on the first byte of the payload: with the QUIC fixed bit (0x40) set a datagram
/// goes to `primary`, else to `low`. Each has its own buffers, so low-priority datagrams can neither push out
/// a received packet of the primary loop nor keep one from being sent. Steering is a service, not a filter: a
/// datagram may still arrive on the other socket, so demultiplex what comes from either.
#[derive(Debug)]
pub struct Sockets {
    /// For level 0.
    pub primary: Socket,
    /// For the low levels; `None` where the system cannot steer, then everything goes over `primary`.
    pub low: Option<Socket>,
}

impl Sockets {
    /// Binds the pair; port 0 lets the system choose.
    ///
    /// The first socket is bound alone and only then opened for the second one (`SO_REUSEPORT`), so that two
    /// servers on one port fail as people expect. From then on another process *of the same user* that asks
    /// for `SO_REUSEPORT` may still bind the port, but the steering program never gives it a datagram. In the
    /// instant between binding the second socket and attaching the program, datagrams may go to either.
    ///
    /// # Errors
    /// [`io::ErrorKind::AddrInUse`] when the port is taken, and as [`Socket::bind_plain`].
    pub fn bind(address: SocketAddr, options: &Options) -> io::Result<Self> {
        let primary = Socket::bind_plain(address, options)?;
        let low = match sys::open_steered(&primary.io, options) {
            Ok(low) => low.map(|(io, state)| Socket { io, state }),
            Err(error) => {
                tracing::warn!(%error, "no second socket, low-priority traffic can crowd out the primary's");
                None
            }
        };
        Ok(Self { primary, low })
    }

    /// The bound address, the same for both.
    ///
    /// # Errors
    /// An [`io::Error`] if the kernel cannot report it.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.primary.local_addr()
    }

    /// The socket for low-priority datagrams: `low`, or `primary` in its place.
    pub fn low(&self) -> &Socket {
        self.low.as_ref().unwrap_or(&self.primary)
    }
}

fn local_addr(io: &socket2::Socket) -> io::Result<SocketAddr> {
    let address = io.local_addr()?.as_socket();
    address.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "the socket has no internet address"))
}

fn canonical(address: SocketAddr) -> SocketAddr {
    match address.ip().to_canonical() {
        IpAddr::V4(ip) => SocketAddr::from((ip, address.port())),
        IpAddr::V6(_) => address,
    }
}

/// `address` in the form the kernel takes on a socket of this family.
fn for_family(address: SocketAddr, ipv6: bool) -> io::Result<SocketAddr> {
    match canonical(address) {
        SocketAddr::V4(v4) if ipv6 => Ok(SocketAddr::from((v4.ip().to_ipv6_mapped(), v4.port()))),
        SocketAddr::V6(_) if !ipv6 => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "an IPv4 socket cannot send to an IPv6 address, bind it to [::]",
        )),
        address => Ok(address),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn out(contents: &[u8], segment_size: Option<usize>) -> Outgoing<'_> {
        Outgoing {
            destination: SocketAddr::from(([127, 0, 0, 1], 9)),
            source: None,
            ecn: 0,
            dscp: 0,
            priority: None,
            contents,
            segment_size,
            dont_fragment: true,
        }
    }

    fn refused(out: Outgoing<'_>) -> bool {
        out.checked_segment().is_err_and(|error| error.kind() == io::ErrorKind::InvalidInput)
    }

    #[test]
    fn a_batch_beyond_the_kernels_limits_is_refused() {
        let bytes = vec![0; MAX_GSO_BYTES + 1];
        assert!(refused(out(&bytes, None)));
        assert!(refused(out(&bytes[..65], Some(1))));
        assert!(refused(out(&bytes[..1], Some(0))));
        assert_eq!(out(&bytes[..64], Some(1)).checked_segment().unwrap(), Some(1));
        assert_eq!(out(&bytes[..MAX_GSO_BYTES], Some(1452)).checked_segment().unwrap(), Some(1452));
    }

    #[test]
    fn one_datagram_is_no_batch() {
        assert_eq!(out(&[0; 10], Some(10)).checked_segment().unwrap(), None);
        assert_eq!(out(&[0; 10], Some(11)).checked_segment().unwrap(), None);
        assert_eq!(out(&[], Some(11)).checked_segment().unwrap(), None);
    }

    #[test]
    fn a_batch_that_may_be_fragmented_is_refused() {
        assert!(refused(Outgoing { dont_fragment: false, ..out(&[0; 10], Some(5)) }));
        assert!(!refused(Outgoing { dont_fragment: false, ..out(&[0; 10], None) }));
    }

    #[test]
    fn marks_and_sources_that_fit_no_header_are_refused() {
        assert!(refused(Outgoing { ecn: 4, ..out(&[], None) }));
        assert!(refused(Outgoing { dscp: 64, ..out(&[], None) }));
        assert!(refused(Outgoing { source: "::1".parse().ok(), ..out(&[], None) }));
        let mapped = "[::ffff:127.0.0.1]:9".parse().unwrap();
        let source = "127.0.0.1".parse().ok();
        assert!(!refused(Outgoing { destination: mapped, source, ..out(&[], None) }));
    }
}
