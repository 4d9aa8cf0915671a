//! Linux: marks, segmentation offload and steering by control messages and socket options.
//!
//! Owns every raw system call of the crate and the rules for what to do when the kernel refuses one. Numbers
//! that this rests on were measured on Linux 6.18; the names of the options are those of ip(7), ipv6(7),
//! udp(7) and socket(7).

use std::{
    io, mem,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6},
    os::fd::AsRawFd,
    ptr,
    sync::{
        Mutex, MutexGuard, Once, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
};

use bytes::BytesMut;
use libc::{c_int, c_void};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use super::{
    super::{
        Capabilities, MAX_GSO_SEGMENTS, Options, Outgoing, RECV_MESSAGES_MAX, RecvBatch, RecvMeta, Stats,
        batch::Message, canonical, for_family, local_addr, stats::Counters,
    },
    cmsg::{self, Control, Decoder, Encoder},
    leading::IPV4_HEADER,
    watch::Watch,
};
use crate::marks::PRIORITY_FILLER;

/// Room for the control messages of one send: marks, priority, segment size, source.
const SEND_CONTROL: usize = cmsg::space(4) + cmsg::space(4) + cmsg::space(2) + cmsg::space(20);
/// Room for those of one received message. A dual-stack socket may report both families' marks and addresses.
const RECV_CONTROL: usize = 256;
/// Room for a sender's address, a `sockaddr_in6`.
const NAME: usize = 28;
/// The longest fragment of what was received, from linux/in.h and linux/in6.h; libc does not have them.
const IP_RECVFRAGSIZE: c_int = 25;
const IPV6_RECVFRAGSIZE: c_int = 77;
/// How often a receive is repeated after an error that belongs to some earlier datagram.
const RECV_RETRIES: usize = 8;

/// Memory that `recv` lends to the kernel, beside the slots. Boxed: it is too large to move about.
pub(in crate::socket) struct Scratch {
    controls: Box<[Control<RECV_CONTROL>; RECV_MESSAGES_MAX]>,
    names: Box<[Control<NAME>; RECV_MESSAGES_MAX]>,
    filled: [Filled; RECV_MESSAGES_MAX],
}

impl Default for Scratch {
    fn default() -> Self {
        Self {
            controls: Box::new([const { Control::new() }; RECV_MESSAGES_MAX]),
            names: Box::new([const { Control::new() }; RECV_MESSAGES_MAX]),
            filled: [Filled::default(); RECV_MESSAGES_MAX],
        }
    }
}

/// What is known about a socket beside its descriptor.
#[derive(Debug)]
pub(in crate::socket) struct State {
    ipv6: bool,
    gro: bool,
    /// Only ever goes from true to false.
    gso: AtomicBool,
    /// Only ever goes from true to false: the kernel does not know the control message.
    priority_cmsg: AtomicBool,
    /// Priorities from here up were refused for lack of privilege. Only ever falls.
    priority_end: AtomicU64,
    /// The marks set on the socket itself, once any were.
    socket_marks: Mutex<Option<SocketMarks>>,
    /// Whether the socket sets DF: there is no control message for it. Held while it is changed and a datagram sent.
    dont_fragment: Mutex<bool>,
    /// Held while datagrams that came in fragments are looked at.
    watch: Mutex<Watch>,
    recv_buffer: usize,
    send_buffer: usize,
    counters: Counters,
    #[cfg(test)]
    faults: Mutex<Vec<Fault>>,
}

/// What the kernel is to answer in place of sending, for tests of what cannot be brought about at will.
#[cfg(test)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fault {
    pub(crate) error: c_int,
    /// Only batches fail.
    pub(crate) batches: bool,
    /// One send in so many fails.
    pub(crate) one_in: usize,
    /// Sends so far.
    pub(crate) sends: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct SocketMarks {
    tos: u8,
    priority: u32,
}

/// A socket bound alone.
pub(in crate::socket) fn open(address: SocketAddr, options: &Options) -> io::Result<(Socket, State)> {
    let (io, mut state) = prepare(address, options)?;
    io.bind(&SockAddr::from(address))?;
    let watch = state.watch.get_mut().unwrap_or_else(PoisonError::into_inner);
    if let Watch::Concluding = watch
        && takes_ipv4(address)
    {
        *watch = Watch::new(local_addr(&io)?.port(), options.packet_socket);
    }
    Ok((io, state))
}

/// A second socket on the address of `primary` that gets what does not look like QUIC.
///
/// Index = order of binding, so `primary` is 0 and the new one 1. `primary` was bound without `SO_REUSEPORT`:
/// that made sure that nobody else had the port. It may still join a group afterwards, as its first member.
pub(in crate::socket) fn open_steered(
    primary: &Socket,
    options: &Options,
) -> io::Result<Option<(Socket, State)>> {
    let address = local_addr(primary)?;
    // Before there is a group, find out whether it could be steered: an unsteered one would scatter
    // datagrams.
    let probe = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    probe.set_reuse_port(true)?;
    attach_steering(&probe)?;

    let (io, state) = prepare(address, options)?;
    io.set_reuse_port(true)?;
    primary.set_reuse_port(true)?;
    let joined = io.bind(&SockAddr::from(address)).and_then(|()| attach_steering(&io));
    if let Err(error) = joined {
        primary.set_reuse_port(false)?;
        return Err(error);
    }
    Ok(Some((io, state)))
}

/// `SIOCOUTQ`: memory of what was sent and not yet freed by the card.
pub(in crate::socket) fn queued_bytes(io: &Socket) -> usize {
    let mut bytes: c_int = 0;
    // SAFETY: the descriptor is open as long as `io` is borrowed; TIOCOUTQ (= SIOCOUTQ) writes one int
    // through the pointer, which is valid for that.
    let result = unsafe { libc::ioctl(io.as_raw_fd(), libc::TIOCOUTQ, &mut bytes) };
    if result == 0 { usize::try_from(bytes).unwrap_or(0) } else { 0 }
}

impl State {
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

    pub(in crate::socket) fn recv(&self, io: &Socket, batch: &mut RecvBatch) -> io::Result<usize> {
        batch.refill();
        let RecvBatch { slots, messages, scratch, .. } = batch;
        let received = receive(io, slots, scratch)?;
        self.counters.recv_syscalls.add(1);
        let mut longest_fragments = [None; RECV_MESSAGES_MAX];
        for (index, slot) in slots.iter_mut().enumerate().take(received) {
            let Filled { len, name_len, control_len, flags } = scratch.filled[index];
            let name = scratch.names[index].0.get(..name_len).unwrap_or_default();
            let control = scratch.controls[index].0.get(..control_len).unwrap_or_default();
            let message = decode(name, control, len);
            // Without all of its control messages the borders inside are unknown.
            let cut = flags & (libc::MSG_TRUNC | libc::MSG_CTRUNC) != 0;
            match message {
                Some((message, longest_fragment)) if !cut => {
                    longest_fragments[index] = longest_fragment;
                    self.counters.received_datagrams.add(len.div_ceil(message.stride.max(1)));
                    messages.push(message);
                }
                _ => {
                    self.counters.recv_unusable.add(1);
                    slot.clear();
                    // Keeps slots and messages in step; an empty slot yields no datagram.
                    messages.push(Message { meta: NO_META, stride: 0 });
                }
            }
        }
        if longest_fragments != [None; RECV_MESSAGES_MAX] {
            self.find_leading_fragments(slots, messages, &longest_fragments);
        }
        Ok(received)
    }

    /// Completes `messages`, received with the contents of `slots`, by the lengths of their leading fragments.
    fn find_leading_fragments(
        &self,
        slots: &[BytesMut],
        messages: &mut [Message],
        longest: &[Option<usize>; RECV_MESSAGES_MAX],
    ) {
        let mut watch = self.watch.lock().unwrap_or_else(PoisonError::into_inner);
        let mut look = watch.begin(messages.len() < RECV_MESSAGES_MAX);
        for ((slot, message), longest) in slots.iter().zip(messages).zip(longest) {
            let Some(longest) = *longest else { continue };
            let found = look.find(message.meta.remote, slot, longest);
            message.meta.leading_len = found.leading_len;
            self.counters.fragmented_datagrams.add(1);
            self.counters.exact_leading_lens.add(usize::from(found.exact));
        }
    }

    pub(in crate::socket) fn capabilities(&self) -> Capabilities {
        Capabilities {
            gso_segments_max: if self.gso.load(Relaxed) { MAX_GSO_SEGMENTS } else { 1 },
            gro: self.gro,
            dscp: true,
            so_priority: self.priority_end.load(Relaxed) > u64::from(PRIORITY_FILLER),
            priority_cmsg: self.priority_cmsg.load(Relaxed),
            leading_lens: self.watch.lock().unwrap_or_else(PoisonError::into_inner).leading_lens(),
            recv_buffer: self.recv_buffer,
            send_buffer: self.send_buffer,
        }
    }

    pub(in crate::socket) fn stats(&self, io: &Socket) -> Stats {
        self.counters.snapshot(u64::from(overflows(io)))
    }

    /// The batch as single datagrams; also finds out whether segmentation offload was to blame.
    fn send_each(&self, io: &Socket, out: &Outgoing<'_>, segment: usize) -> io::Result<()> {
        let mut left = out.contents.len().div_ceil(segment);
        for (index, contents) in out.contents.chunks(segment).enumerate() {
            let result = self.transmit(io, out, contents, None);
            // The first is as long as the batch said. If it passes, only the offload can have been refused.
            if index == 0 && result.is_ok() && self.gso.load(Relaxed) {
                self.gso.store(false, Relaxed);
                tracing::info!(destination = %out.destination, "offload refused, sending singly");
            }
            if index > 0 && is_os_error(&result, &[libc::EAGAIN]) {
                self.counters.send_would_block.add(1);
                self.counters.send_drops.add(left);
                return Ok(());
            }
            self.conclude(result, out, 1)?;
            left -= 1;
        }
        Ok(())
    }

    /// Counts, and decides which failures are the caller's business.
    fn conclude(&self, result: io::Result<()>, out: &Outgoing<'_>, datagrams: usize) -> io::Result<()> {
        let Err(error) = result else {
            self.counters.sent_datagrams.add(datagrams);
            return Ok(());
        };
        if error.kind() == io::ErrorKind::InvalidInput && error.raw_os_error().is_none() {
            return Err(error);
        }
        match error.raw_os_error() {
            Some(libc::EAGAIN) => {
                self.counters.send_would_block.add(1);
                Err(error)
            }
            Some(libc::EBADF | libc::ENOTSOCK | libc::EFAULT | libc::EAFNOSUPPORT | libc::EOPNOTSUPP) => {
                Err(error)
            }
            // All others can be had by a hostile or broken network: port 0 as the sender's (EINVAL), a
            // firewall (EPERM), a lost route or local address (ENETUNREACH, EINVAL), a full queue (ENOBUFS),
            // a probe for the path's MTU (EMSGSIZE).
            _ => {
                tracing::debug!(%error, destination = %out.destination, datagrams, "not sent");
                self.counters.send_drops.add(datagrams);
                Ok(())
            }
        }
    }

    /// One `sendmsg` with the marks by whichever way the kernel offers.
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
        // Both errors have other causes, too: only if it goes without, the priority was it.
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

    /// The same for kernels that know no priority per packet: marks and priority become those of the socket.
    ///
    /// The order matters: setting the type of service resets the priority. And neither may come as a control
    /// message, for the type of service would override the socket's priority.
    fn transmit_by_socket(&self, io: &Socket, message: Sendmsg<'_>, tos: u8) -> io::Result<()> {
        let mut marks = self.socket_marks.lock().unwrap_or_else(PoisonError::into_inner);
        if message.priority.is_none() && marks.is_none() {
            return self.sendmsg(io, message);
        }
        let wanted = SocketMarks { tos, priority: message.priority.unwrap_or(0) };
        if *marks != Some(wanted) {
            // Unknown until all three calls went well.
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
        // IPv6 has no such bit. Held to the end, so that nobody changes it before the datagram has left.
        let _held = to_ipv4.then(|| self.set_dont_fragment(io, out.dont_fragment)).transpose()?;
        let destination = SockAddr::from(destination);
        #[cfg(test)]
        if let Some(error) = self.fault(segment.is_some()) {
            return Err(error);
        }
        self.call_sendmsg(io, &destination, contents, &control.0[..control_len])
    }

    /// Whether routers may fragment what is sent from now on.
    fn set_dont_fragment(&self, io: &Socket, dont_fragment: bool) -> io::Result<MutexGuard<'_, bool>> {
        let mut current = self.dont_fragment.lock().unwrap_or_else(PoisonError::into_inner);
        if *current != dont_fragment {
            let mode = if dont_fragment { libc::IP_PMTUDISC_PROBE } else { libc::IP_PMTUDISC_DONT };
            set(io, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, mode)?;
            *current = dont_fragment;
        }
        Ok(current)
    }

    /// Lets sends fail from now on.
    #[cfg(test)]
    pub(in crate::socket) fn fail(&self, fault: Fault) {
        self.faults.lock().unwrap().push(fault);
    }

    #[cfg(test)]
    fn fault(&self, batch: bool) -> Option<io::Error> {
        let mut faults = self.faults.lock().unwrap();
        let fault = faults.iter_mut().filter(|fault| batch || !fault.batches).find_map(|fault| {
            fault.sends += 1;
            fault.sends.is_multiple_of(fault.one_in).then_some(fault.error)
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
        // sendmsg takes *mut for historical reasons; it only reads.
        let mut iovec = libc::iovec { iov_base: contents.as_ptr() as *mut c_void, iov_len: contents.len() };
        // SAFETY: msghdr is plain data for which zeros are a valid value: null pointers with zero lengths.
        let mut header: libc::msghdr = unsafe { mem::zeroed() };
        header.msg_name = destination.as_ptr() as *mut c_void;
        header.msg_namelen = destination.len();
        header.msg_iov = &mut iovec;
        header.msg_iovlen = 1;
        if !control.is_empty() {
            header.msg_control = control.as_ptr() as *mut c_void;
            header.msg_controllen = control.len() as _;
        }
        let mut repeat = true;
        loop {
            self.counters.send_syscalls.add(1);
            // SAFETY: the descriptor is open as long as `io` is borrowed. Every pointer in `header` is to
            // memory that is borrowed or owned by this function and outlives the call, with its exact length
            // next to it; `control` begins at a `Control`, which is aligned as cmsghdr must be.
            let result = unsafe { libc::sendmsg(io.as_raw_fd(), &header, 0) };
            if result >= 0 {
                return Ok(());
            }
            let error = io::Error::last_os_error();
            match error.raw_os_error() {
                Some(libc::EINTR) => {}
                // The answer to an earlier datagram; this one has not been tried.
                Some(libc::ECONNREFUSED) if repeat => repeat = false,
                _ => return Err(error),
            }
        }
    }
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

const NO_META: RecvMeta = RecvMeta {
    remote: SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0),
    local: None,
    ecn: 0,
    dscp: 0,
    leading_len: None,
};

/// What the kernel reported of one message.
#[derive(Clone, Copy, Default)]
struct Filled {
    len: usize,
    name_len: usize,
    control_len: usize,
    flags: c_int,
}

/// `recvmmsg` into empty slots; the number of messages, each described in `scratch`.
fn receive(io: &Socket, slots: &mut [BytesMut], scratch: &mut Scratch) -> io::Result<usize> {
    // SAFETY: iovec and mmsghdr are plain data for which zeros are a valid value: null pointers with zero
    // lengths.
    let (mut iovecs, mut headers): ([libc::iovec; RECV_MESSAGES_MAX], [libc::mmsghdr; RECV_MESSAGES_MAX]) =
        unsafe { mem::zeroed() };
    let count = slots.len().min(RECV_MESSAGES_MAX);
    for (index, slot) in slots.iter_mut().take(count).enumerate() {
        let room = slot.spare_capacity_mut();
        iovecs[index] = libc::iovec { iov_base: room.as_mut_ptr().cast(), iov_len: room.len() };
        let header = &mut headers[index].msg_hdr;
        header.msg_name = scratch.names[index].0.as_mut_ptr().cast();
        header.msg_namelen = NAME as _;
        header.msg_iov = &mut iovecs[index];
        header.msg_iovlen = 1;
        header.msg_control = scratch.controls[index].0.as_mut_ptr().cast();
        header.msg_controllen = RECV_CONTROL as _;
    }
    let mut retries = RECV_RETRIES;
    let received = loop {
        // SAFETY: the descriptor is open as long as `io` is borrowed. `headers` has `count` entries filled in
        // above; their pointers are to distinct memory of `slots`, `scratch` and `iovecs`, all mutably
        // borrowed or owned here and not touched in between, each with its exact length. The control buffers
        // are aligned as cmsghdr must be.
        let result = unsafe {
            libc::recvmmsg(
                io.as_raw_fd(),
                headers.as_mut_ptr(),
                count as _,
                libc::MSG_DONTWAIT as _,
                ptr::null_mut(),
            )
        };
        if let Ok(received) = usize::try_from(result) {
            break received;
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EINTR) => {}
            // Answers to datagrams sent earlier, not about this call.
            Some(
                libc::ECONNREFUSED | libc::EHOSTUNREACH | libc::ENETUNREACH | libc::EMSGSIZE | libc::EPROTO,
            ) if retries > 0 => retries -= 1,
            _ => return Err(error),
        }
    };
    for (index, slot) in slots.iter_mut().take(received).enumerate() {
        let header = &headers[index];
        // The kernel never reports more than it was given room for (no MSG_TRUNC was asked for in the call).
        let len = (header.msg_len as usize).min(iovecs[index].iov_len);
        // SAFETY: the slot was empty, so its spare room began at its start; the kernel has initialised `len`
        // bytes of it, and `len` is no more than that room.
        unsafe { slot.set_len(len) };
        scratch.filled[index] = Filled {
            len,
            name_len: header.msg_hdr.msg_namelen as usize,
            control_len: header.msg_hdr.msg_controllen as _,
            flags: header.msg_hdr.msg_flags,
        };
    }
    Ok(received)
}

/// Makes sense of a message's address and control messages; `None` without a sender. If it came in fragments, with the
/// bytes of payload of the longest.
fn decode(name: &[u8], control: &[u8], len: usize) -> Option<(Message, Option<usize>)> {
    let mut meta = RecvMeta { remote: canonical(decode_name(name)?), ..NO_META };
    let mut stride = len;
    let mut longest_fragment = None;
    for message in Decoder::new(control) {
        match (message.level, message.kind) {
            (libc::IPPROTO_IP, libc::IP_TOS) | (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => {
                let tos = message.number()? as u8;
                (meta.dscp, meta.ecn) = (tos >> 2, tos & 3);
            }
            // ipi_spec_dst: the local address to answer from, also when the packet went to a broadcast
            // address.
            (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                let local: [u8; 4] = message.data.get(4..8)?.try_into().ok()?;
                meta.local = Some(Ipv4Addr::from(local).into());
            }
            (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                let local: [u8; 16] = message.data.get(..16)?.try_into().ok()?;
                let local = Ipv6Addr::from(local).to_canonical();
                // For IPv4 the message above knows better, whichever comes first.
                if meta.local.is_none() || local.is_ipv6() {
                    meta.local = Some(local);
                }
            }
            // Never joined with others: the card sees fragments, the socket what was made of them.
            (libc::IPPROTO_IP, IP_RECVFRAGSIZE) => {
                longest_fragment = usize::try_from(message.number()?).ok()?.checked_sub(IPV4_HEADER);
            }
            // With any other extension header the length stands for a higher rate, which ends in a loss.
            (libc::IPPROTO_IPV6, IPV6_RECVFRAGSIZE) => {
                const HEADERS: usize = 40 + 8;
                longest_fragment = usize::try_from(message.number()?).ok()?.checked_sub(HEADERS);
            }
            (libc::SOL_UDP, libc::UDP_GRO) => stride = usize::try_from(message.number()?).ok()?,
            _ => {}
        }
    }
    meta.local = meta.local.filter(|local| !local.is_multicast() && !local.is_unspecified());
    // A stride of zero would cut off nothing for ever.
    Some((Message { meta, stride: if stride == 0 { len } else { stride } }, longest_fragment))
}

/// A `sockaddr_in` or `sockaddr_in6` as the kernel writes it.
fn decode_name(name: &[u8]) -> Option<SocketAddr> {
    let (family, rest) = name.split_first_chunk()?;
    let (port, rest) = rest.split_first_chunk()?;
    let port = u16::from_be_bytes(*port);
    match c_int::from(u16::from_ne_bytes(*family)) {
        libc::AF_INET => Some((*rest.first_chunk::<4>()?, port).into()),
        libc::AF_INET6 => {
            let (flow, rest) = rest.split_first_chunk()?;
            let (ip, rest) = rest.split_first_chunk::<16>()?;
            let scope = u32::from_ne_bytes(*rest.first_chunk()?);
            Some(SocketAddrV6::new((*ip).into(), port, u32::from_be_bytes(*flow), scope).into())
        }
        _ => None,
    }
}

/// A socket with all options set, not yet bound.
fn prepare(address: SocketAddr, options: &Options) -> io::Result<(Socket, State)> {
    let ipv6 = address.is_ipv6();
    let io = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    io.set_nonblocking(true)?;
    // Options of IPv4 count for the IPv4 side of a dual-stack socket. DF is set, but for what routers may fragment, and
    // the path's MTU not remembered: the primary loop probes for it (RFC 9000 §14.3).
    set(&io, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_PROBE)?;
    set(&io, libc::IPPROTO_IP, libc::IP_RECVTOS, 1)?;
    set(&io, libc::IPPROTO_IP, libc::IP_PKTINFO, 1)?;
    // Since Linux 4.13; without it signals of routers go unseen. The leading fragments are seen where most of them
    // belong to, at the socket bound first.
    let mut tells_longest = takes_ipv4(address) && set(&io, libc::IPPROTO_IP, IP_RECVFRAGSIZE, 1).is_ok();
    if ipv6 {
        tells_longest |= set(&io, libc::IPPROTO_IPV6, IPV6_RECVFRAGSIZE, 1).is_ok();
        io.set_only_v6(false)?;
        set(&io, libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_PROBE)?;
        set(&io, libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS, 1)?;
        set(&io, libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, 1)?;
    }
    let gro = options.gro && set(&io, libc::SOL_UDP, libc::UDP_GRO, 1).is_ok();
    // Zero is the default; the call only shows whether the kernel knows the option (4.18 and later).
    let gso = options.gso && set(&io, libc::SOL_UDP, libc::UDP_SEGMENT, 0).is_ok();

    static RECV_CAPPED: Once = Once::new();
    static SEND_CAPPED: Once = Once::new();
    io.set_recv_buffer_size(options.recv_buffer)?;
    let recv_buffer = io.recv_buffer_size()?;
    warn_if_capped(&RECV_CAPPED, "net.core.rmem_max", options.recv_buffer, recv_buffer);
    io.set_send_buffer_size(options.send_buffer)?;
    let send_buffer = io.send_buffer_size()?;
    warn_if_capped(&SEND_CAPPED, "net.core.wmem_max", options.send_buffer, send_buffer);

    let state = State {
        ipv6,
        gro,
        gso: AtomicBool::new(gso),
        priority_cmsg: AtomicBool::new(options.priority_cmsg && knows_priority_cmsg()),
        priority_end: AtomicU64::new(u64::MAX),
        socket_marks: Mutex::new(None),
        dont_fragment: Mutex::new(true),
        watch: Mutex::new(if tells_longest { Watch::Concluding } else { Watch::Blind }),
        recv_buffer,
        send_buffer,
        counters: Counters::default(),
        #[cfg(test)]
        faults: Mutex::default(),
    };
    Ok((io, state))
}

/// Whether a socket bound to `address` gets datagrams over IPv4.
fn takes_ipv4(address: SocketAddr) -> bool {
    address.ip().is_unspecified() || address.ip().to_canonical().is_ipv4()
}

/// The kernel doubles what it grants and says nothing when that is less than was asked for.
fn warn_if_capped(once: &Once, sysctl: &str, asked: usize, in_force: usize) {
    let granted = in_force / 2;
    if granted < asked {
        once.call_once(|| {
            tracing::warn!(
                asked,
                granted,
                "socket buffer below what was asked for, run sysctl -w {sysctl}={asked}"
            );
        });
    }
}

/// Whether the kernel takes `SO_PRIORITY` as a control message; asked once per process.
///
/// Tried on a send that fails for another reason just after the control messages were read: to the broadcast
/// address, which a socket may not use unless it asked for it. No packet leaves.
fn knows_priority_cmsg() -> bool {
    static KNOWN: OnceLock<bool> = OnceLock::new();
    *KNOWN.get_or_init(|| {
        let Ok(io) = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP)) else {
            // Then the first send will tell.
            return true;
        };
        let state = State {
            ipv6: false,
            gro: false,
            gso: AtomicBool::new(false),
            priority_cmsg: AtomicBool::new(true),
            priority_end: AtomicU64::new(u64::MAX),
            socket_marks: Mutex::new(None),
            dont_fragment: Mutex::new(true),
            watch: Mutex::new(Watch::Blind),
            recv_buffer: 0,
            send_buffer: 0,
            counters: Counters::default(),
            #[cfg(test)]
            faults: Mutex::default(),
        };
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

/// Steers a group: the QUIC fixed bit (RFC 9000 §17.2) set, or no payload at all, goes to member 0, else to
/// member 1.
fn attach_steering(io: &Socket) -> io::Result<()> {
    // The program sees the payload of the UDP datagram. A load past its end makes it return 0.
    let load_first_byte = (libc::BPF_LD | libc::BPF_B | libc::BPF_ABS) as u16;
    let jump_if_set = (libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K) as u16;
    let ret = (libc::BPF_RET | libc::BPF_K) as u16;
    let mut program = [
        libc::sock_filter { code: load_first_byte, jt: 0, jf: 0, k: 0 },
        libc::sock_filter { code: jump_if_set, jt: 0, jf: 1, k: 0x40 },
        libc::sock_filter { code: ret, jt: 0, jf: 0, k: 0 },
        libc::sock_filter { code: ret, jt: 0, jf: 0, k: 1 },
    ];
    let program = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    set(io, libc::SOL_SOCKET, libc::SO_ATTACH_REUSEPORT_CBPF, program)
}

/// Sets `SO_PRIORITY` for the whole socket.
fn set_priority(io: &Socket, priority: u32) -> io::Result<()> {
    set(io, libc::SOL_SOCKET, libc::SO_PRIORITY, priority)
}

/// Values that may be passed to `setsockopt` as they lie in memory.
///
/// # Safety
/// The type is plain data without padding that the kernel would read, and pointers in it stay valid for the
/// call.
pub(super) unsafe trait OptionValue {}
// SAFETY: a number.
unsafe impl OptionValue for c_int {}
// SAFETY: a number.
unsafe impl OptionValue for u32 {}
// SAFETY: `repr(C)`; the kernel reads the two fields, not the padding, and copies what `filter` points to.
// The one caller keeps the array alive.
unsafe impl OptionValue for libc::sock_fprog {}

pub(super) fn set<T: OptionValue>(io: &Socket, level: c_int, name: c_int, value: T) -> io::Result<()> {
    // SAFETY: the descriptor is open as long as `io` is borrowed; pointer and length describe `value`, which
    // lives to the end of this function, and `OptionValue` vouches for its contents.
    let result = unsafe {
        libc::setsockopt(
            io.as_raw_fd(),
            level,
            name,
            (&raw const value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Datagrams dropped for want of receive buffer, from `SO_MEMINFO` (include/uapi/linux/sock_diag.h).
fn overflows(io: &Socket) -> u32 {
    const DROPS: usize = 8;
    let mut values = [0u32; DROPS + 1];
    let mut len = size_of_val(&values) as libc::socklen_t;
    // SAFETY: the descriptor is open as long as `io` is borrowed; the kernel writes at most `len` bytes,
    // which is the size of `values`, and any bytes make valid numbers.
    unsafe {
        libc::getsockopt(
            io.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MEMINFO,
            values.as_mut_ptr().cast(),
            &mut len,
        );
    }
    // Zero if the call failed or the kernel knows fewer values.
    values[DROPS]
}

fn is_os_error(result: &io::Result<()>, codes: &[c_int]) -> bool {
    result.as_ref().is_err_and(|error| error.raw_os_error().is_some_and(|code| codes.contains(&code)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Not in libc yet: report skb->priority of received packets (Linux 6.14).
    const SO_RCVPRIORITY: c_int = 82;

    /// A receiver that reports priorities, or `None` where the kernel cannot.
    fn priority_reporter(address: &str) -> Option<(Socket, SocketAddr)> {
        let (io, _) = match open(address.parse().unwrap(), &Options::default()) {
            Ok(opened) => opened,
            Err(error) => {
                println!("skipped: no socket on {address}: {error}");
                return None;
            }
        };
        if let Err(error) = set(&io, libc::SOL_SOCKET, SO_RCVPRIORITY, 1) {
            println!("skipped: the kernel does not report priorities: {error}");
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
        let mut byte = [mem::MaybeUninit::uninit()];
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

    fn send_marked(io: &Socket, state: &State, to: SocketAddr, dscp: u8, priority: Option<u32>, batch: bool) {
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

    /// Sends level 0, a low level and level 0 again, over one socket, and checks what queue each would have
    /// met.
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
        // As the kernel answers an unprivileged process; root would be allowed.
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
            println!("skipped: no GSO here");
            return;
        }
        // Without checksums the kernel refuses to segment, as it does for a card that cannot compute them.
        set(&io, libc::SOL_SOCKET, libc::SO_NO_CHECK, 1).unwrap();
        for syscalls in [1 + 1 + 3, 3] {
            let before = state.stats(&io).send_syscalls;
            send_marked(&io, &state, local_addr(&receiver).unwrap(), 1, Some(1), true);
            for _ in 0..3 {
                let mut bytes = [mem::MaybeUninit::uninit(); 2_000];
                assert_eq!(receiver.recv(&mut bytes).expect("within five seconds"), 1_000);
            }
            assert_eq!(state.capabilities().gso_segments_max, 1);
            assert_eq!(state.stats(&io).send_syscalls - before, syscalls);
        }
        assert!(state.capabilities().priority_cmsg, "the priority was not to blame");
        assert_eq!(state.stats(&io).send_drops, 0);
    }

    #[test]
    fn names_and_control_messages_cut_anywhere_do_no_harm() {
        let v4 = SockAddr::from("192.0.2.1:4433".parse::<SocketAddr>().unwrap());
        let v6 = SockAddr::from("[fe80::1%7]:4433".parse::<SocketAddr>().unwrap());
        for (name, text) in [(v4, "192.0.2.1:4433"), (v6, "[fe80::1%7]:4433")] {
            // SAFETY: a SockAddr owns `len` initialised bytes at its pointer and lives to the end of the
            // body.
            let bytes =
                unsafe { std::slice::from_raw_parts(name.as_ptr().cast::<u8>(), name.len() as usize) };
            assert_eq!(decode_name(bytes), Some(text.parse().unwrap()));
            for cut in 0..8 {
                assert_eq!(decode_name(&bytes[..cut]), None);
            }
        }
        assert_eq!(decode_name(&[0xff; NAME]), None);

        let mut control = Control::<64>::new();
        let mut encoder = Encoder::new(&mut control);
        encoder.push(libc::SOL_UDP, libc::UDP_GRO, &0i32.to_ne_bytes());
        let len = encoder.len();
        let name = [2, 0, 0, 9, 127, 0, 0, 1];
        if cfg!(target_endian = "little") {
            assert_eq!(
                decode(&name, &control.0[..len], 100).unwrap().0.stride,
                100,
                "a stride of zero is none"
            );
        }
    }
}
