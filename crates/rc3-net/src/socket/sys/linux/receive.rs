//! Receiving: `recvmmsg`, and interpreting its results.

use std::{
    io, mem,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6},
    os::fd::AsRawFd,
    ptr,
    sync::PoisonError,
    time::Duration,
};

use bytes::BytesMut;
use libc::c_int;
use socket2::Socket;

use super::{
    super::super::{RECV_MESSAGES_MAX, RecvBatch, RecvMeta, batch::KernelMessage},
    IP_RECVFRAGSIZE, IPV6_RECVFRAGSIZE, SocketState,
    cmsg::{Control, Decoder},
    leading::IPV4_HEADER,
    stamp::{self, Clocks},
    watch::READS_MAX,
};

/// Room for the control messages of one received message. A dual-stack socket may report both families' marks and
/// addresses.
const RECV_CONTROL: usize = 256;
/// Room for a sender's address, a `sockaddr_in6`.
const NAME: usize = 28;
/// How often a receive is repeated after an error that belongs to some earlier datagram.
const RECV_RETRIES: usize = 8;

/// Memory that `recv` passes to the kernel, besides the slots. Boxed, because it is too large to move.
pub(in crate::socket) struct Scratch {
    pub(super) controls: Box<[Control<RECV_CONTROL>; RECV_MESSAGES_MAX]>,
    names: Box<[Control<NAME>; RECV_MESSAGES_MAX]>,
    pub(super) filled: [Filled; RECV_MESSAGES_MAX],
    /// When it was used last.
    clocks: Option<Clocks>,
}

impl Default for Scratch {
    fn default() -> Self {
        Self {
            controls: Box::new([const { Control::new() }; RECV_MESSAGES_MAX]),
            names: Box::new([const { Control::new() }; RECV_MESSAGES_MAX]),
            filled: [Filled::default(); RECV_MESSAGES_MAX],
            clocks: None,
        }
    }
}

impl SocketState {
    pub(in crate::socket) fn recv(&self, io: &Socket, batch: &mut RecvBatch) -> io::Result<usize> {
        batch.refill();
        let RecvBatch { slots, messages, scratch, .. } = batch;
        #[cfg(test)]
        if let Some(error) = self.fault(|calls| calls == super::send::Calls::Receives) {
            return Err(self.counters.recv_failed(error));
        }
        let received = receive(io, slots, scratch).map_err(|error| self.counters.recv_failed(error))?;
        self.counters.add(|stats| &mut stats.recv_syscalls, 1);
        let read = self.timestamps.then(Clocks::read);
        let before = std::mem::replace(&mut scratch.clocks, read);
        let clocks = read.filter(|read| before.is_none_or(|before| read.go_on_from(&before)));
        let mut longest_fragments = [None; RECV_MESSAGES_MAX];
        let mut datagrams = 0;
        for (index, slot) in slots.iter_mut().enumerate().take(received) {
            let Filled { len, name_len, control_len, flags } = scratch.filled[index];
            let name = scratch.names[index].0.get(..name_len).unwrap_or_default();
            let control = scratch.controls[index].0.get(..control_len).unwrap_or_default();
            let decoded = decode(name, control, len);
            // Without all of its control messages the borders between its datagrams are unknown.
            let cut = flags & (libc::MSG_TRUNC | libc::MSG_CTRUNC) != 0;
            match decoded {
                Some(Decoded { mut message, longest_fragment, stamp }) if !cut => {
                    message.meta.arrived =
                        clocks.zip(stamp).and_then(|(clocks, stamp)| clocks.instant(stamp));
                    longest_fragments[index] = longest_fragment;
                    datagrams += len.div_ceil(message.stride.max(1));
                    messages.push(message);
                }
                _ => {
                    self.counters.add(|stats| &mut stats.recv_unusable, 1);
                    slot.clear();
                    // Keeps slots and messages aligned; an empty slot yields no datagram.
                    let nobody = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
                    messages.push(KernelMessage { meta: RecvMeta::of(nobody), stride: 0 });
                }
            }
        }
        self.counters.add(|stats| &mut stats.received_datagrams, datagrams);
        if longest_fragments != [None; RECV_MESSAGES_MAX] {
            self.find_leading_fragments(slots, messages, &longest_fragments);
        }
        Ok(received)
    }

    /// Adds the lengths of leading fragments to `messages`, received with the contents of `slots`.
    fn find_leading_fragments(
        &self,
        slots: &[BytesMut],
        messages: &mut [KernelMessage],
        longest: &[Option<usize>; RECV_MESSAGES_MAX],
    ) {
        let mut watch = self.watch.lock().unwrap_or_else(PoisonError::into_inner);
        let drained = messages.len() < RECV_MESSAGES_MAX;
        let mut reads = READS_MAX;
        for ((slot, message), longest) in slots.iter().zip(messages).zip(longest) {
            let Some(longest) = *longest else { continue };
            let found = watch.find(message.meta.remote, slot, longest, &mut reads);
            message.meta.leading_len = found.leading_len;
            self.counters.add(|stats| &mut stats.fragmented_datagrams, 1);
            self.counters.add(|stats| &mut stats.exact_leading_lens, usize::from(found.exact));
        }
        if drained {
            watch.on_drained();
        }
    }
}

/// The kernel's report of one message.
#[derive(Clone, Copy, Default)]
pub(super) struct Filled {
    len: usize,
    name_len: usize,
    pub(super) control_len: usize,
    flags: c_int,
}

/// `recvmmsg` into empty slots; the number of messages, each described in `scratch`.
pub(super) fn receive(io: &Socket, slots: &mut [BytesMut], scratch: &mut Scratch) -> io::Result<usize> {
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
            // Answers to datagrams sent earlier, unrelated to this call.
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

/// What a message's address and control messages mean.
#[derive(Debug)]
struct Decoded {
    message: KernelMessage,
    /// If it arrived in fragments: payload bytes of the longest.
    longest_fragment: Option<usize>,
    /// When the kernel received it, since 1970.
    stamp: Option<Duration>,
}

/// Interprets a message's address and control messages; `None` without a sender.
fn decode(name: &[u8], control: &[u8], len: usize) -> Option<Decoded> {
    let mut meta = RecvMeta::of(decode_name(name)?);
    let mut stride = len;
    let mut longest_fragment = None;
    let mut stamp = None;
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
                // For IPv4 the message above is more precise, whichever comes first.
                if meta.local.is_none() || local.is_ipv6() {
                    meta.local = Some(local);
                }
            }
            // Never joined with others: the card sees fragments, the socket the reassembled datagram.
            (libc::IPPROTO_IP, IP_RECVFRAGSIZE) => {
                longest_fragment = usize::try_from(message.number()?).ok()?.checked_sub(IPV4_HEADER);
            }
            // With any other extension header the length encodes a higher rate, which ends in a loss.
            (libc::IPPROTO_IPV6, IPV6_RECVFRAGSIZE) => {
                const HEADERS: usize = 40 + 8;
                longest_fragment = usize::try_from(message.number()?).ok()?.checked_sub(HEADERS);
            }
            // The message has the number of the option. The kernel stamps after the card and it have joined packets.
            (libc::SOL_SOCKET, libc::SO_TIMESTAMPNS) => stamp = stamp::parse(message.data),
            (libc::SOL_UDP, libc::UDP_GRO) => stride = usize::try_from(message.number()?).ok()?,
            _ => {}
        }
    }
    meta.local = meta.local.filter(|local| !local.is_multicast() && !local.is_unspecified());
    // With a stride of zero, splitting would never end.
    let message = KernelMessage { meta, stride: if stride == 0 { len } else { stride } };
    Some(Decoded { message, longest_fragment, stamp })
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

#[cfg(test)]
mod tests {
    use socket2::SockAddr;

    use super::{super::cmsg::Encoder, *};

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
                decode(&name, &control.0[..len], 100).unwrap().message.stride,
                100,
                "a stride of zero is none"
            );
        }
    }

    #[test]
    fn a_stamp_cut_anywhere_is_none() {
        let name = [libc::AF_INET as u16, 9_u16.to_be()].map(u16::to_ne_bytes).concat();
        let name = [&name[..], &[127, 0, 0, 1]].concat();
        let mut control = Control::<64>::new();
        let mut encoder = Encoder::new(&mut control);
        let timespec = [1_800_000_000_i64, 7].map(i64::to_ne_bytes).concat();
        encoder.push(libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, &timespec);
        let len = encoder.len();
        let stamp = |len: usize| decode(&name, &control.0[..len], 100).unwrap().stamp;
        assert_eq!(stamp(len), Some(Duration::new(1_800_000_000, 7)));
        assert!((0..len).all(|cut| stamp(cut).is_none()));
    }
}
