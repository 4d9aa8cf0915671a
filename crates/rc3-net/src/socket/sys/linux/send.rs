//! Sending: `sendmsg`, and what to do when the kernel refuses.

use std::{
    io::{self, IoSlice},
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::{MutexGuard, OnceLock, PoisonError, atomic::Ordering::Relaxed},
};

use libc::c_int;
use socket2::{Domain, MsgHdr, Protocol, SockAddr, Socket, Type};

use super::{
    super::super::{Outgoing, canonical, for_family, is_unusable},
    SocketState,
    cmsg::{self, Control, Encoder},
    options::{set, set_priority},
};

/// Room for the control messages of one send: marks, priority, segment size, source.
const SEND_CONTROL: usize = cmsg::space(4) + cmsg::space(4) + cmsg::space(2) + cmsg::space(20);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SocketMarks {
    tos: u8,
    priority: u32,
}

/// Errors injected instead of calls, for tests that cannot provoke them.
#[cfg(test)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct InjectedError {
    pub(crate) error: c_int,
    pub(crate) calls: Calls,
    /// One call in this many fails.
    pub(crate) one_in: usize,
    /// Calls so far.
    pub(crate) count: usize,
}

/// Which calls fail.
#[cfg(test)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Calls {
    Sends,
    /// Sends of batches.
    Batches,
    Receives,
}

/// One message to the kernel.
#[derive(Clone, Copy)]
struct Sendmsg<'a> {
    out: &'a Outgoing<'a>,
    contents: &'a [u8],
    segment: Option<usize>,
    tos: Option<u8>,
    priority: Option<u32>,
}

impl SocketState {
    pub(in crate::socket) fn send(&self, io: &Socket, out: &Outgoing<'_>) -> io::Result<()> {
        let Some(segment) = out.checked_segment()? else {
            let result = self.transmit(io, out, out.contents, None);
            return self.conclude(result, out, 1);
        };
        if self.gso.load(Relaxed) {
            let result = self.transmit(io, out, out.contents, Some(segment));
            // EIO: the route cannot do checksums in hardware or is encrypted. EINVAL: no such control
            // message, or, up to some kernel, a segment longer than the link allows.
            if !is_os_error(&result, &[libc::EIO, libc::EINVAL]) {
                return self.conclude(result, out, out.contents.len().div_ceil(segment));
            }
        }
        self.send_each(io, out, segment)
    }

    /// Sends the batch as single datagrams; also detects whether segmentation offload was the cause.
    fn send_each(&self, io: &Socket, out: &Outgoing<'_>, segment: usize) -> io::Result<()> {
        let mut left = out.contents.len().div_ceil(segment);
        for (index, contents) in out.contents.chunks(segment).enumerate() {
            let result = self.transmit(io, out, contents, None);
            // The first has the length given for the batch. If it passes, only the offload can have been refused.
            if index == 0 && result.is_ok() && self.gso.load(Relaxed) {
                self.gso.store(false, Relaxed);
                tracing::info!(destination = %out.destination, "offload refused, sending singly");
            }
            if index > 0 && is_os_error(&result, &[libc::EAGAIN]) {
                self.counters.add(|stats| &mut stats.send_would_block, 1);
                self.counters.add(|stats| &mut stats.send_drops, left);
                return Ok(());
            }
            self.conclude(result, out, 1)?;
            left -= 1;
        }
        Ok(())
    }

    /// Counts, and decides which failures are reported to the caller. A hostile or broken network can cause all others:
    /// port 0 as the sender's (EINVAL), a firewall (EPERM), a lost route or local address (ENETUNREACH, EINVAL), a full
    /// queue (ENOBUFS), a probe for the path's MTU (EMSGSIZE).
    fn conclude(&self, result: io::Result<()>, out: &Outgoing<'_>, datagrams: usize) -> io::Result<()> {
        match result {
            Err(error) if error.kind() == io::ErrorKind::InvalidInput && error.raw_os_error().is_none() => {
                Err(error)
            }
            Err(error) if error.raw_os_error() == Some(libc::EAFNOSUPPORT) || is_unusable(&error) => {
                Err(error)
            }
            result => self.counters.sent(result, out, datagrams),
        }
    }

    /// One `sendmsg` with the marks in whichever way the kernel supports.
    fn transmit(
        &self,
        io: &Socket,
        out: &Outgoing<'_>,
        contents: &[u8],
        segment: Option<usize>,
    ) -> io::Result<()> {
        let tos = out.dscp << 2 | out.ecn;
        let priority = out.priority.filter(|&priority| u64::from(priority) < self.priority_end.load(Relaxed));
        let message = Sendmsg { out, contents, segment, tos: Some(tos), priority };
        if !self.priority_cmsg.load(Relaxed) {
            return self.transmit_by_socket(io, message, tos);
        }
        let result = self.sendmsg(io, message);
        let Some(refused) = priority.filter(|_| is_os_error(&result, &[libc::EINVAL, libc::EPERM])) else {
            return result;
        };
        // Both errors have other causes, too: the priority was the cause only if sending without it succeeds.
        let bare = self.sendmsg(io, Sendmsg { priority: None, ..message });
        if bare.is_ok() {
            if is_os_error(&result, &[libc::EPERM]) {
                self.refuse_priority(refused);
            } else {
                self.priority_cmsg.store(false, Relaxed);
            }
        }
        bare
    }

    /// The same for kernels without priorities per packet: marks and priority are set on the socket.
    ///
    /// The order matters: setting the type of service resets the priority. Neither may be a control message, because
    /// the type of service would override the socket's priority.
    fn transmit_by_socket(&self, io: &Socket, message: Sendmsg<'_>, tos: u8) -> io::Result<()> {
        let mut marks = self.socket_marks.lock().unwrap_or_else(PoisonError::into_inner);
        if message.priority.is_none() && marks.is_none() {
            return self.sendmsg(io, message);
        }
        let wanted = SocketMarks { tos, priority: message.priority.unwrap_or(0) };
        if *marks != Some(wanted) || self.shared.load(Relaxed) {
            // Unknown until all three calls succeeded.
            *marks = None;
            io.set_tos_v4(u32::from(tos))?;
            if self.ipv6 {
                io.set_tclass_v6(u32::from(tos))?;
            }
            match set_priority(io, wanted.priority) {
                Err(error) if error.raw_os_error() == Some(libc::EPERM) => {
                    self.refuse_priority(wanted.priority)
                }
                result => result?,
            }
            *marks = Some(wanted);
        }
        self.sendmsg(io, Sendmsg { tos: None, priority: None, ..message })
    }

    fn refuse_priority(&self, priority: u32) {
        self.priority_end.fetch_min(u64::from(priority), Relaxed);
        tracing::info!(priority, "no privilege for this queue priority, sending without");
    }

    fn sendmsg(&self, io: &Socket, message: Sendmsg<'_>) -> io::Result<()> {
        let Sendmsg { out, contents, segment, tos, priority } = message;
        let destination = for_family(out.destination, self.ipv6)?;
        let to_ipv4 = canonical(destination).is_ipv4();

        let mut control = Control::<SEND_CONTROL>::new();
        let mut encoder = Encoder::new(&mut control);
        if let Some(tos) = tos {
            let (level, kind) = if to_ipv4 {
                (libc::IPPROTO_IP, libc::IP_TOS)
            } else {
                (libc::IPPROTO_IPV6, libc::IPV6_TCLASS)
            };
            encoder.push(level, kind, &c_int::from(tos).to_ne_bytes());
        }
        // After the type of service, which resets it.
        if let Some(priority) = priority {
            encoder.push(libc::SOL_SOCKET, libc::SO_PRIORITY, &priority.to_ne_bytes());
        }
        if let Some(segment) = segment.and_then(|segment| u16::try_from(segment).ok()) {
            encoder.push(libc::SOL_UDP, libc::UDP_SEGMENT, &segment.to_ne_bytes());
        }
        match out.source {
            // struct in_pktinfo: interface, source, (ignored) destination.
            Some(IpAddr::V4(source)) => {
                let mut info = [0; 12];
                info[4..8].copy_from_slice(&source.octets());
                encoder.push(libc::IPPROTO_IP, libc::IP_PKTINFO, &info);
            }
            // struct in6_pktinfo: source, interface.
            Some(IpAddr::V6(source)) => {
                let mut info = [0; 20];
                info[..16].copy_from_slice(&source.octets());
                encoder.push(libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, &info);
            }
            None => {}
        }
        let control_len = encoder.len();
        // IPv6 has no such bit. Held to the end, so that it does not change before the datagram has left.
        let mut held = to_ipv4.then(|| self.set_dont_fragment(io, out.dont_fragment)).transpose()?;
        let destination = SockAddr::from(destination);
        #[cfg(test)]
        if let Some(error) =
            self.fault(|calls| calls == Calls::Sends || (segment.is_some() && calls == Calls::Batches))
        {
            return Err(error);
        }
        let result = self.call_sendmsg(io, &destination, contents, &control.0[..control_len]);
        // Another process relies on the bit.
        if let Some(current) = held.as_mut().filter(|current| !***current && self.shared.load(Relaxed)) {
            Self::change_dont_fragment(io, true)?;
            **current = true;
        }
        result
    }

    /// Whether routers may fragment datagrams sent from now on.
    fn set_dont_fragment(&self, io: &Socket, dont_fragment: bool) -> io::Result<MutexGuard<'_, bool>> {
        let mut current = self.dont_fragment.lock().unwrap_or_else(PoisonError::into_inner);
        if *current != dont_fragment {
            Self::change_dont_fragment(io, dont_fragment)?;
            *current = dont_fragment;
        }
        Ok(current)
    }

    fn change_dont_fragment(io: &Socket, dont_fragment: bool) -> io::Result<()> {
        let mode = if dont_fragment { libc::IP_PMTUDISC_PROBE } else { libc::IP_PMTUDISC_DONT };
        set(io, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, mode)
    }

    /// Lets calls fail from now on.
    #[cfg(test)]
    pub(in crate::socket) fn fail(&self, fault: InjectedError) {
        self.faults.lock().unwrap().push(fault);
    }

    #[cfg(test)]
    pub(super) fn fault(&self, concerns: impl Fn(Calls) -> bool) -> Option<io::Error> {
        let mut faults = self.faults.lock().unwrap();
        let fault = faults.iter_mut().filter(|fault| concerns(fault.calls)).find_map(|fault| {
            fault.count += 1;
            fault.count.is_multiple_of(fault.one_in).then_some(fault.error)
        });
        fault.map(io::Error::from_raw_os_error)
    }

    fn call_sendmsg(
        &self,
        io: &Socket,
        destination: &SockAddr,
        contents: &[u8],
        control: &[u8],
    ) -> io::Result<()> {
        let buffers = [IoSlice::new(contents)];
        let message = MsgHdr::new().with_addr(destination).with_buffers(&buffers).with_control(control);
        let mut repeat = true;
        loop {
            self.counters.add(|stats| &mut stats.send_syscalls, 1);
            let Err(error) = io.sendmsg(&message, 0) else { return Ok(()) };
            match error.raw_os_error() {
                Some(libc::EINTR) => {}
                // The answer to an earlier datagram; this one was not tried.
                Some(libc::ECONNREFUSED) if repeat => repeat = false,
                _ => return Err(error),
            }
        }
    }
}

/// Whether the kernel takes `SO_PRIORITY` as a control message; asked once per process.
///
/// Tested on a send that fails for another reason just after the control messages were read: to the broadcast address,
/// which a socket may not use by default. No packet leaves.
pub(super) fn knows_priority_cmsg() -> bool {
    static KNOWN: OnceLock<bool> = OnceLock::new();
    *KNOWN.get_or_init(|| {
        let Ok(io) = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP)) else {
            // Then the first send will show it.
            return true;
        };
        let state = SocketState::bare(false);
        let out = Outgoing {
            destination: SocketAddr::from((Ipv4Addr::BROADCAST, 9)),
            source: None,
            ecn: 0,
            dscp: 0,
            priority: Some(0),
            contents: &[],
            segment_size: None,
            dont_fragment: true,
        };
        let message = Sendmsg { out: &out, contents: &[], segment: None, tos: None, priority: Some(0) };
        !is_os_error(&state.sendmsg(&io, message), &[libc::EINVAL])
    })
}

fn is_os_error(result: &io::Result<()>, codes: &[c_int]) -> bool {
    result.as_ref().is_err_and(|error| error.raw_os_error().is_some_and(|code| codes.contains(&code)))
}

#[cfg(test)]
mod tests {
    use std::mem::MaybeUninit;

    use bytes::BytesMut;

    use super::{
        super::{
            super::super::{Options, local_addr},
            cmsg::Decoder,
            open,
            receive::{Scratch, receive},
        },
        *,
    };
    use crate::skip::skipped;

    /// Not in libc yet: report skb->priority of received packets (Linux 6.14).
    const SO_RCVPRIORITY: c_int = 82;

    /// A receiver that reports priorities, or `None` where the kernel cannot.
    fn priority_reporter(address: &str) -> Option<(Socket, SocketAddr)> {
        let (io, _) = match open(address.parse().unwrap(), &Options::default()) {
            Ok(opened) => opened,
            Err(error) => {
                skipped(&format!("a socket on {address}: {error}"));
                return None;
            }
        };
        if let Err(error) = set(&io, libc::SOL_SOCKET, SO_RCVPRIORITY, 1) {
            skipped(&format!("a kernel that reports priorities: {error}"));
            return None;
        }
        let address = local_addr(&io).unwrap();
        io.set_nonblocking(false).unwrap();
        io.set_read_timeout(Some(std::time::Duration::from_secs(5))).unwrap();
        Some((io, address))
    }

    /// Tos and priority of the next message.
    fn next_marks(io: &Socket) -> (u32, u32) {
        // Wait with a peek; `receive` itself does not.
        let mut byte = [MaybeUninit::uninit()];
        io.peek(&mut byte).expect("a datagram within five seconds");
        let mut scratch = Scratch::default();
        let mut slots = vec![BytesMut::with_capacity(1 << 16)];
        assert_eq!(receive(io, &mut slots, &mut scratch).unwrap(), 1);
        let control = &scratch.controls[0].0[..scratch.filled[0].control_len];
        let find = |level, kind| {
            let message = Decoder::new(control).find(|m| m.level == level && m.kind == kind);
            message.and_then(|message| message.number())
        };
        let tos =
            find(libc::IPPROTO_IP, libc::IP_TOS).or_else(|| find(libc::IPPROTO_IPV6, libc::IPV6_TCLASS));
        (tos.unwrap(), find(libc::SOL_SOCKET, libc::SO_PRIORITY).unwrap())
    }

    fn send_marked(
        io: &Socket,
        state: &SocketState,
        to: SocketAddr,
        dscp: u8,
        priority: Option<u32>,
        batch: bool,
    ) {
        let out = Outgoing {
            destination: to,
            source: None,
            ecn: 2,
            dscp,
            priority,
            contents: &[7; 3_000],
            segment_size: batch.then_some(1_000),
            dont_fragment: true,
        };
        state.send(io, &out).unwrap();
    }

    /// Sends level 0, a low level and level 0 again, over one socket, and checks the queue that each would have used.
    fn priorities_follow_the_level(address: &str, priority_cmsg: bool) {
        let Some((receiver, to)) = priority_reporter(address) else { return };
        let options = Options { priority_cmsg, ..Options::default() };
        let (io, state) = open(address.parse().unwrap(), &options).unwrap();
        for batch in [false, true] {
            for (dscp, priority, expected) in [(0, None, 0), (1, Some(1), 1), (15, Some(5), 5), (0, None, 0)]
            {
                send_marked(&io, &state, to, dscp, priority, batch);
                assert_eq!(next_marks(&receiver), (u32::from(dscp << 2 | 2), expected), "batch: {batch}");
            }
        }
        assert_eq!(state.capabilities().priority_cmsg, priority_cmsg);
    }

    #[test]
    fn each_packet_meets_the_queue_of_its_level() {
        priorities_follow_the_level("127.0.0.1:0", true);
        priorities_follow_the_level("[::1]:0", true);
    }

    #[test]
    fn without_the_control_message_each_packet_still_meets_the_queue_of_its_level() {
        priorities_follow_the_level("127.0.0.1:0", false);
        priorities_follow_the_level("[::1]:0", false);
    }

    #[test]
    fn a_refused_priority_is_left_away_and_lesser_ones_are_kept() {
        let Some((receiver, to)) = priority_reporter("127.0.0.1:0") else { return };
        let (io, state) = open("127.0.0.1:0".parse().unwrap(), &Options::default()).unwrap();
        // The answer to an unprivileged process; root would be allowed.
        state.refuse_priority(3);
        send_marked(&io, &state, to, 1, Some(3), false);
        assert_eq!(next_marks(&receiver), (6, 0));
        send_marked(&io, &state, to, 1, Some(1), false);
        assert_eq!(next_marks(&receiver), (6, 1));
        assert!(state.capabilities().so_priority);
        state.refuse_priority(1);
        assert!(!state.capabilities().so_priority);
    }

    #[test]
    fn refused_offload_is_switched_off_and_nothing_is_lost() {
        let (receiver, _) = open("127.0.0.1:0".parse().unwrap(), &Options::default()).unwrap();
        receiver.set_nonblocking(false).unwrap();
        receiver.set_read_timeout(Some(std::time::Duration::from_secs(5))).unwrap();
        let (io, state) = open("127.0.0.1:0".parse().unwrap(), &Options::default()).unwrap();
        if state.capabilities().gso_segments_max == 1 {
            skipped("GSO");
            return;
        }
        // Without checksums the kernel refuses to segment, as for a card that cannot compute them.
        set(&io, libc::SOL_SOCKET, libc::SO_NO_CHECK, 1).unwrap();
        for syscalls in [1 + 1 + 3, 3] {
            let before = state.stats(&io).send_syscalls;
            send_marked(&io, &state, local_addr(&receiver).unwrap(), 1, Some(1), true);
            for _ in 0..3 {
                let mut bytes = [MaybeUninit::uninit(); 2_000];
                assert_eq!(receiver.recv(&mut bytes).expect("within five seconds"), 1_000);
            }
            assert_eq!(state.capabilities().gso_segments_max, 1);
            assert_eq!(state.stats(&io).send_syscalls - before, syscalls);
        }
        assert!(state.capabilities().priority_cmsg, "the priority was not the cause");
        assert_eq!(state.stats(&io).send_drops, 0);
    }
}
