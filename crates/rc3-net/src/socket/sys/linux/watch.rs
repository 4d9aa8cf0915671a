//! How a socket learns the leading fragments of the datagrams that it receives.

use std::{collections::VecDeque, io::Read, net::SocketAddr};

use socket2::Socket;

use super::{
    super::super::{LeadingLens, PacketSocket},
    leading::{LeadingFragment, concluded_len},
    packet_socket::{self, SNAP},
};

/// Most stored fragments without their datagram; lone ones, of a flood, displace each other.
const PENDING_MAX: usize = 512;

/// Most fragments read for the datagrams of one receive call.
pub(super) const READS_MAX: usize = 1024;

/// A packet socket that has shown nothing after this many fragmented datagrams never will.
const MISSES_MAX: u32 = 32;

/// How the lengths of leading fragments are learned.
#[derive(Debug)]
pub(super) enum FragmentWatch {
    /// The kernel does not report which datagrams arrived in fragments.
    Blind,
    /// There is no packet socket until a datagram arrives in fragments.
    Waiting { port: u16 },
    /// There is one.
    Seeing(Box<Sight>),
    /// There will be no packet socket.
    Concluding,
}

/// A packet socket, and the fragments it has shown.
#[derive(Debug)]
pub(super) struct Sight {
    io: Socket,
    /// In the order of arrival.
    pending: VecDeque<LeadingFragment>,
    /// Datagrams older than the socket may still arrive.
    behind: bool,
    /// It has shown a fragment, even if of no received datagram: a stranger can send that, too.
    proven: bool,
    /// Before that: datagrams of which it should have shown a fragment.
    misses: u32,
}

impl FragmentWatch {
    /// For a socket that receives IPv4 datagrams at `port`.
    pub(super) fn new(port: u16, packet_socket: PacketSocket) -> Self {
        match packet_socket {
            PacketSocket::Never => Self::Concluding,
            PacketSocket::OnDemand => Self::Waiting { port },
            PacketSocket::AtBind => Self::open(port, false),
        }
    }

    fn open(port: u16, behind: bool) -> Self {
        match packet_socket::open(port) {
            Ok(io) => {
                let pending = VecDeque::with_capacity(PENDING_MAX);
                Self::Seeing(Box::new(Sight { io, pending, behind, proven: false, misses: 0 }))
            }
            Err(error) => {
                tracing::info!(port, %error, "lengths of leading fragments are concluded from the longest");
                Self::Concluding
            }
        }
    }

    pub(super) fn leading_lens(&self) -> LeadingLens {
        match self {
            Self::Blind => LeadingLens::Unknown,
            Self::Seeing(_) => LeadingLens::Exact,
            Self::Waiting { .. } | Self::Concluding => LeadingLens::Concluded,
        }
    }
}

/// The result for one datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FoundLen {
    /// Payload bytes of its leading fragment.
    pub(super) leading_len: Option<u16>,
    /// Whether it was seen.
    pub(super) exact: bool,
}

impl FragmentWatch {
    /// The datagram with this payload arrived from `remote` in fragments, of which the longest had `longest` bytes of
    /// payload. `reads`: how many fragments may still be read for the same receive call, at first [`READS_MAX`].
    pub(super) fn find(
        &mut self,
        remote: SocketAddr,
        payload: &[u8],
        longest: usize,
        reads: &mut usize,
    ) -> FoundLen {
        let concluded = FoundLen { leading_len: concluded_len(longest, payload.len()), exact: false };
        // The packet socket shows only IPv4: IPv6 is fragmented only by routers configured for it.
        if remote.is_ipv6() {
            return concluded;
        }
        if let Self::Waiting { port } = *self {
            *self = Self::open(port, true);
        }
        let Self::Seeing(sight) = self else { return concluded };
        if let Some(len) = sight.find(remote, payload, longest, reads) {
            return FoundLen { leading_len: Some(len), exact: true };
        }
        if !sight.proven && !sight.behind {
            sight.misses += 1;
            if sight.misses == MISSES_MAX {
                tracing::info!("a packet socket shows no fragments, lengths are concluded from the longest");
                *self = Self::Concluding;
            }
        }
        concluded
    }

    /// A receive call has left no datagram.
    pub(super) fn on_drained(&mut self) {
        if let Self::Seeing(sight) = self {
            sight.behind = false;
        }
    }
}

impl Sight {
    fn find(&mut self, remote: SocketAddr, payload: &[u8], longest: usize, reads: &mut usize) -> Option<u16> {
        let is_it = |fragment: &LeadingFragment| fragment.is_of(remote, payload, longest);
        let found = match self.pending.iter().rposition(is_it) {
            Some(index) => self.pending.remove(index),
            // The kernel keeps the others until they are read.
            None => loop {
                let Some(fragment) = self.next(reads) else { break None };
                if is_it(&fragment) {
                    break Some(fragment);
                }
                if self.pending.len() == PENDING_MAX {
                    self.pending.pop_front();
                }
                self.pending.push_back(fragment);
            },
        };
        found.map(|fragment| fragment.len())
    }

    /// The next fragment that the socket shows.
    fn next(&mut self, reads: &mut usize) -> Option<LeadingFragment> {
        let mut packet = [0; SNAP];
        while *reads > 0 {
            let Ok(len) = (&self.io).read(&mut packet) else {
                // Nothing is available, and later fragments cannot belong to datagrams received before.
                *reads = 0;
                return None;
            };
            *reads -= 1;
            if !self.proven {
                tracing::info!("lengths of leading fragments are exact, a packet socket shows them");
                self.proven = true;
            }
            if let Some(fragment) = LeadingFragment::parse(&packet[..len]) {
                return Some(fragment);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::{
        super::leading::tests::{FROM, fragment},
        *,
    };

    const LEN: u16 = 400;

    /// Of 400, 600 and 479 bytes of payload; concluded from it is 600.
    const LONGEST: usize = 600;
    const CONCLUDED: FoundLen = FoundLen { leading_len: Some(600), exact: false };
    const SEEN: FoundLen = FoundLen { leading_len: Some(LEN), exact: true };

    fn payload(number: usize) -> Vec<u8> {
        number.to_be_bytes().repeat(184)[..1471].to_vec()
    }

    /// Like a packet socket, replaced by a UDP socket: it shows what the other sends.
    fn watch(behind: bool) -> (FragmentWatch, UdpSocket) {
        let (shown, show) =
            (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
        show.connect(shown.local_addr().unwrap()).unwrap();
        shown.set_nonblocking(true).unwrap();
        let sight = Sight { io: shown.into(), pending: VecDeque::new(), behind, proven: false, misses: 0 };
        (FragmentWatch::Seeing(Box::new(sight)), show)
    }

    fn find(watch: &mut FragmentWatch, drained: bool, number: usize) -> FoundLen {
        let found = watch.find(FROM.parse().unwrap(), &payload(number), LONGEST, &mut { READS_MAX });
        if drained {
            watch.on_drained();
        }
        found
    }

    fn show(by: &UdpSocket, number: usize) {
        by.send(&fragment(0, LEN.into(), &payload(number))[..SNAP]).unwrap();
    }

    #[test]
    fn a_socket_that_shows_nothing_is_given_up() {
        let (mut watch, _show) = watch(false);
        for _ in 0..MISSES_MAX {
            assert_eq!(watch.leading_lens(), LeadingLens::Exact);
            assert_eq!(find(&mut watch, true, 0), CONCLUDED);
        }
        assert_eq!(watch.leading_lens(), LeadingLens::Concluded);
    }

    #[test]
    fn what_was_received_before_the_socket_was_there_speaks_not_against_it() {
        let (mut watch, _show) = watch(true);
        for _ in 0..10 * MISSES_MAX {
            find(&mut watch, false, 0);
        }
        assert_eq!(watch.leading_lens(), LeadingLens::Exact);
        for _ in 0..MISSES_MAX + 1 {
            find(&mut watch, true, 0);
        }
        assert_eq!(watch.leading_lens(), LeadingLens::Concluded);
    }

    #[test]
    fn a_socket_that_has_shown_anything_is_kept_whatever_it_misses() {
        let (mut watch, by) = watch(false);
        by.send(b"whose leading fragment is too short").unwrap();
        for _ in 0..10 * MISSES_MAX {
            assert_eq!(find(&mut watch, true, 1), CONCLUDED);
        }
        show(&by, 2);
        assert_eq!(find(&mut watch, true, 2), SEEN);
        assert_eq!(watch.leading_lens(), LeadingLens::Exact);
    }

    #[test]
    fn fragments_wait_for_their_datagrams_in_bounded_memory_and_are_of_one_each() {
        let (mut watch, by) = watch(false);
        let lone = 3 * PENDING_MAX;
        for number in 0..lone {
            show(&by, number);
            if number % 64 == 63 {
                find(&mut watch, true, lone);
            }
        }
        by.send(b"nonsense").unwrap();
        show(&by, lone + 1);
        assert_eq!(find(&mut watch, true, lone + 1), SEEN);
        let FragmentWatch::Seeing(sight) = &watch else { panic!("given up") };
        assert_eq!(sight.pending.len(), PENDING_MAX);
        assert_eq!(find(&mut watch, true, lone - 1), SEEN);
        assert_eq!(find(&mut watch, true, lone - 1), CONCLUDED);
        assert_eq!(find(&mut watch, true, lone - PENDING_MAX), SEEN);
        assert_eq!(find(&mut watch, true, lone - PENDING_MAX - 1), CONCLUDED);
    }
}
