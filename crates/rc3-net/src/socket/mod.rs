//! UDP sockets that carry the marks: readiness, batches, features and counters.
//!
//! Owns the two sockets of an endpoint and the options that the kernel needs for them. On Linux one
//! `sendmsg` sends up to [`MAX_GSO_SEGMENTS`] datagrams with one DSCP, ECN and queue priority; one `recvmmsg`
//! receives up to [`RECV_MESSAGES_MAX`] batches. Elsewhere it is one datagram per call and no marks.
//!
//! Invariant: no input from the network makes a socket unusable. Errors of a destination or a router count as drops, as
//! if the network had lost the datagram.
//!
//! Addresses are canonical on both sides: an IPv4 peer is an IPv4 address, also on a dual-stack socket. Sizes are in
//! bytes of UDP payload by default.

use std::{
    io,
    net::{IpAddr, SocketAddr, UdpSocket},
};

use rc3_core::WorkerHash;
use socket2::SockRef;

#[cfg(all(test, target_os = "linux", not(rc3_portable)))]
pub(crate) use self::sys::{Calls, InjectedError};
pub(crate) use self::{application::ApplicationSocket, endpoint_socket::EndpointSocket};
pub use self::{
    asynchronous::AsyncSocket,
    batch::{Datagram, RECV_MESSAGES_MAX, RecvBatch, RecvMeta},
    stats::Stats,
};

mod application;
mod asynchronous;
mod batch;
mod endpoint_socket;
mod stats;
#[cfg_attr(
    all(target_os = "linux", not(rc3_portable)),
    expect(unsafe_code, reason = "the one place that talks to the kernel without a safe wrapper")
)]
mod sys;

/// Most datagrams in one send: `UDP_MAX_SEGMENTS` of Linux up to 6.8; later kernels take 128.
pub const MAX_GSO_SEGMENTS: usize = 64;

/// Most bytes in one send: the largest UDP payload of IPv4, 65,535 minus 20 of IP and 8 of UDP.
pub const MAX_GSO_BYTES: usize = rc3_core::BATCH_BYTES_MAX;

/// Requested options of a socket. [`Capabilities`] has the granted ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Bytes requested with `SO_RCVBUF`. Linux doubles the number and uses about 2.3 KB of it per full datagram, so the
    /// default of 4 MiB holds about 3600: 40 ms at 1 Gbit/s, enough for a busy scheduler.
    pub recv_buffer: usize,
    /// Bytes requested with `SO_SNDBUF`, doubled likewise. The default of 1 MiB takes 32 batches of 44 full datagrams:
    /// room for queued low-priority data, one more batch of it and a burst of the primary loop, and yet less than a
    /// second of delay on a slow link.
    pub send_buffer: usize,
    /// Let the kernel (or the card) split one big send into datagrams. Saves most of the cost of sending.
    pub gso: bool,
    /// Let the kernel join equal datagrams of one flow before they are received.
    pub gro: bool,
    /// Attach the queue priority to each packet. Linux supports it since 6.14; without support, or with `false`, the
    /// marks are set on the socket whenever they change. That costs three more system calls per change, not per packet.
    pub priority_cmsg: bool,
    /// When to open a packet socket, which sees the exact length of leading fragments.
    pub packet_socket: PacketSocket,
}

/// When to open a packet socket in addition to a UDP socket.
///
/// Kick-Ass routers signal a rate by the length of a datagram's leading fragment. Linux reports the length of the
/// longest fragment to every socket; with two fragments, the leading one follows from it. A packet socket sees it
/// directly, and needs `CAP_NET_RAW`. It receives only leading fragments of datagrams to the same port, and costs some
/// tens of nanoseconds for every packet that the host receives or sends. If it is not available, or shows nothing,
/// lengths are concluded. [`Capabilities::leading_lens`] reports the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PacketSocket {
    /// Never.
    Never,
    /// Once a datagram has arrived in fragments, with the privileges at that time.
    #[default]
    OnDemand,
    /// When the UDP socket is bound, with the privileges at that time: for processes that drop them afterwards, and for
    /// rates from the first datagram on. The descriptor can also send frames: a process that is compromised later can
    /// do that, although it could no longer open one.
    AtBind,
}

/// How the lengths of leading fragments are learned, see [`RecvMeta::leading_len`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeadingLens {
    /// Seen by a packet socket. If that missed one, and over IPv6, like [`Self::Concluded`].
    Exact,
    /// Concluded from the length of the longest: right for two fragments. With more it is that of another one, if the
    /// leading one is not the longest.
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
    /// Destination.
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
    /// Length of each datagram except the last; `None` for one datagram. At most [`MAX_GSO_SEGMENTS`] datagrams.
    pub segment_size: Option<usize>,
    /// Whether routers must not fragment it. A fragmentable datagram is sent alone, since the datagrams of a batch
    /// share IP identifications with the next batch. No effect in IPv6, where routers never fragment, and on systems
    /// without this choice.
    pub dont_fragment: bool,
}

impl Outgoing<'_> {
    /// The segment size if there is more than one datagram.
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

/// Features of a socket. Probed when it was bound; those for sending may be lost later, when a route refuses them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Capabilities {
    /// Useful number of datagrams in one send: [`MAX_GSO_SEGMENTS`], or 1 without segmentation offload.
    pub gso_segments_max: usize,
    /// Whether equal datagrams may arrive joined.
    pub gro: bool,
    /// Whether DSCP are sent and reported. ECN may be without it.
    pub dscp: bool,
    /// Whether queue priorities are honoured at all, per packet or through the socket.
    pub so_priority: bool,
    /// Whether they can change with every packet at no cost. Otherwise, send levels in long runs.
    pub priority_cmsg: bool,
    /// Whether the system reports when it received a datagram.
    pub timestamps: bool,
    /// How the lengths of leading IPv4 fragments are learned.
    pub leading_lens: LeadingLens,
    /// Receive buffer in the kernel's unit, bytes of its own memory; on Linux twice the granted size.
    pub recv_buffer: usize,
    /// Send buffer in the same unit, which is that of [`Socket::queued_bytes`] too.
    pub send_buffer: usize,
}

impl Capabilities {
    /// Those of a socket that sends and receives single datagrams.
    const NONE: Self = Self {
        gso_segments_max: 1,
        gro: false,
        dscp: false,
        so_priority: false,
        priority_cmsg: false,
        timestamps: false,
        leading_lens: LeadingLens::Unknown,
        recv_buffer: 0,
        send_buffer: 0,
    };
}

/// A non-blocking UDP socket, usable without a runtime. [`AsyncSocket`] adds the wake-ups.
#[derive(Debug)]
pub struct Socket {
    io: socket2::Socket,
    state: sys::SocketState,
}

impl Socket {
    /// Binds one socket for all levels, without steering.
    ///
    /// `[::]` also takes IPv4 if the system allows.
    ///
    /// # Errors
    /// [`io::ErrorKind::AddrInUse`] if the port is taken, [`io::ErrorKind::AddrNotAvailable`] if this host does not have
    /// the address, another [`io::Error`] if the kernel lacks an option that has no fallback.
    pub fn bind_plain(address: SocketAddr, options: &Options) -> io::Result<Self> {
        let (io, state) = sys::open(address, options)?;
        Ok(Self { io, state })
    }

    /// Takes over a socket that the application has bound, for all levels. Its options are set as for a new one, but its
    /// buffers only grow.
    ///
    /// # Errors
    /// An [`io::Error`] if it is no UDP socket, or if the kernel lacks an option that has no fallback.
    pub fn adopt_plain(socket: UdpSocket, options: &Options) -> io::Result<Self> {
        let io = socket2::Socket::from(socket);
        let state = sys::adopt(&io, options)?;
        Ok(Self { io, state })
    }

    /// Sends one whole [`Outgoing`] now.
    ///
    /// If segmentation offload is refused (`EIO`, `EINVAL`) it is disabled for this socket and the batch is sent as
    /// single datagrams; a refused priority is omitted likewise. If the send buffer fills up among such singles, the
    /// rest is dropped and counted: repeating the whole batch would send some of it twice.
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

    /// Receives available datagrams, up to [`RECV_MESSAGES_MAX`] messages of one or more datagrams each, and returns
    /// the number of messages. Remaining datagrams in `batch` are discarded.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] when nothing is available; `EBADF`, `ENOTSOCK`, `EFAULT` and `EOPNOTSUPP` mean that
    /// the socket is unusable, others, such as `ENOMEM`, may be over soon.
    pub fn try_recv(&self, batch: &mut RecvBatch) -> io::Result<usize> {
        self.state.recv(&self.io, batch)
    }
}

/// What a [`Socket`] can do, with a runtime or without.
macro_rules! system_calls {
    ($socket:ty) => {
        impl $socket {
            /// Memory of datagrams sent but not yet taken by the network card, in the unit of
            /// [`Capabilities::send_buffer`]. About 2.3 KB per full datagram; 0 if the system does not report it (or on
            /// paths without back pressure).
            pub fn queued_bytes(&self) -> usize {
                sys::queued_bytes(&SockRef::from(&self.io))
            }

            /// Whether datagrams may be fragmented on their way, whatever [`Outgoing::dont_fragment`] says.
            pub(crate) fn may_fragment(&self) -> bool {
                self.state.may_fragment()
            }

            /// The bound address.
            ///
            /// # Errors
            /// An [`io::Error`] if the kernel cannot report it.
            pub fn local_addr(&self) -> io::Result<SocketAddr> {
                local_addr(&SockRef::from(&self.io))
            }

            /// The current features of the socket.
            pub fn capabilities(&self) -> Capabilities {
                self.state.capabilities()
            }

            /// Only [`Capabilities::gso_segments_max`], which each batch needs.
            pub(crate) fn segments_max(&self) -> usize {
                self.state.segments_max()
            }

            /// [`EndpointSocket::set_shared`].
            pub(crate) fn set_shared(&self, shared: bool) {
                self.state.set_shared(shared);
            }

            /// Counters of the socket so far.
            pub fn stats(&self) -> Stats {
                self.state.stats(&SockRef::from(&self.io))
            }
        }

        #[cfg(unix)]
        impl std::os::fd::AsFd for $socket {
            fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
                self.io.as_fd()
            }
        }
    };
}
use system_calls;

system_calls!(Socket);

/// The sockets of one endpoint, bound to one address.
///
/// On Linux the kernel steers by the first byte of the payload: a datagram with the QUIC fixed bit (0x40) goes to
/// `primary`, others to `low`. Each has its own buffers, so low-priority datagrams can neither push out a received
/// packet of the primary loop nor prevent one from being sent. Steering is not a filter: a datagram may still arrive on
/// the other socket, so demultiplex the input of both.
#[derive(Debug)]
pub struct Sockets {
    /// For level 0.
    pub primary: Socket,
    /// For the low levels; `None` if the system cannot steer; then everything goes through `primary`.
    pub low: Option<Socket>,
}

impl Sockets {
    /// Binds the pair; port 0 lets the system choose.
    ///
    /// The first socket is bound alone and only then opened for the second one (`SO_REUSEPORT`), so that two servers on
    /// one port fail as users expect. From then on another process *of the same user* that sets `SO_REUSEPORT` may
    /// still bind the port, but the steering program never gives it a datagram. Between binding the second socket and
    /// attaching the program, datagrams may go to either.
    ///
    /// # Errors
    /// [`io::ErrorKind::AddrInUse`] when the port is taken, and as [`Socket::bind_plain`].
    pub fn bind(address: SocketAddr, options: &Options) -> io::Result<Self> {
        Ok(Self::beside(Socket::bind_plain(address, options)?, options))
    }

    /// Takes over a socket that the application has bound. On Linux a second one, with the same device, mark and other
    /// settings that affect routing, joins it on its port.
    ///
    /// All levels share the given socket if a second one could get datagrams that are meant for others, or send where
    /// the first may not: if it is not bound, is connected, has `SO_REUSEPORT` or a packet filter, is in another network
    /// namespace, or if its settings cannot be copied for lack of privilege. Datagrams that a clone of the given socket
    /// should receive may arrive at either.
    ///
    /// # Errors
    /// As [`Socket::adopt_plain`].
    pub fn adopt(socket: UdpSocket, options: &Options) -> io::Result<Self> {
        Ok(Self::beside(Socket::adopt_plain(socket, options)?, options))
    }

    /// Binds a pair for each worker that `hash` chooses from, all to one address. On Linux the kernel gives each
    /// datagram to the socket that belongs to its worker and loop.
    ///
    /// As with [`Self::bind`], another process of the same user may join the port and gets nothing. Until the program
    /// is attached, and when the kernel joins datagrams of several connections (GRO), a datagram may arrive at another
    /// worker: check each with [`WorkerHash::worker_of`].
    ///
    /// # Errors
    /// As [`Self::bind`], and [`io::ErrorKind::Unsupported`] if the kernel cannot steer.
    pub fn bind_group(address: SocketAddr, options: &Options, hash: &WorkerHash) -> io::Result<Vec<Self>> {
        Self::group(Socket::bind_plain(address, options)?, options, hash)
    }

    /// The sockets of one worker that another process has bound, and sent. They have their options and steering.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidData`] if one is no UDP socket, or not bound.
    #[cfg(all(target_os = "linux", not(rc3_portable)))]
    pub(crate) fn receive(
        primary: std::os::fd::OwnedFd,
        low: Option<std::os::fd::OwnedFd>,
        options: &Options,
    ) -> io::Result<Self> {
        let adopt = |fd, options: &Options| {
            let io = socket2::Socket::from(fd);
            let state = sys::receive(&io, options)?;
            Ok::<_, io::Error>(Socket { io, state })
        };
        // Most leading fragments belong to the first socket, so it alone watches them.
        let unwatched = Options { packet_socket: PacketSocket::Never, ..options.clone() };
        Ok(Self {
            primary: adopt(primary, options)?,
            low: low.map(|low| adopt(low, &unwatched)).transpose()?,
        })
    }

    /// As [`Self::bind_group`], with a socket that is bound as the first one.
    ///
    /// # Errors
    /// [`io::ErrorKind::Unsupported`] if the kernel cannot steer or, for the reasons at [`Self::adopt`], should not.
    pub(crate) fn group(first: Socket, options: &Options, hash: &WorkerHash) -> io::Result<Vec<Self>> {
        let others = sys::open_group(&first.io, options, hash)?;
        let mut sockets =
            std::iter::once(first).chain(others.into_iter().map(|(io, state)| Socket { io, state }));
        let pair = || Some(Self { primary: sockets.next()?, low: sockets.next() });
        Ok(std::iter::from_fn(pair).collect())
    }

    /// With a second socket, if possible.
    pub(crate) fn beside(primary: Socket, options: &Options) -> Self {
        let low = match sys::open_steered(&primary.io, options) {
            Ok(low) => low.map(|(io, state)| Socket { io, state }),
            Err(error) => {
                tracing::warn!(%error, "no second socket, low-priority traffic can fill the primary's buffer");
                None
            }
        };
        Self { primary, low }
    }

    /// The bound address, the same for both.
    ///
    /// # Errors
    /// An [`io::Error`] if the kernel cannot report it.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.primary.local_addr()
    }

    /// The socket for low-priority datagrams: `low`, or `primary` without it.
    pub fn low(&self) -> &Socket {
        self.low.as_ref().unwrap_or(&self.primary)
    }
}

fn local_addr(io: &socket2::Socket) -> io::Result<SocketAddr> {
    let address = io.local_addr()?.as_socket();
    address.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "the socket has no internet address"))
}

/// `address` without an IPv4 address in it.
pub(crate) fn canonical(address: SocketAddr) -> SocketAddr {
    match address.ip().to_canonical() {
        IpAddr::V4(ip) => SocketAddr::from((ip, address.port())),
        IpAddr::V6(_) => address,
    }
}

/// Whether all later calls on the socket will fail too, as far as the error shows.
pub(crate) fn is_unusable(error: &io::Error) -> bool {
    let code = error.raw_os_error();
    error.kind() == io::ErrorKind::Unsupported || code.is_some_and(|code| sys::UNUSABLE.contains(&code))
}

/// `address` in the form that the kernel accepts on a socket of this family.
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
