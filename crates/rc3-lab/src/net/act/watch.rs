//! Watches a queue from both sides: which packets waited while worse ones left.

use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash, Hasher},
    io,
    os::fd::AsRawFd,
    sync::{Arc, Mutex, PoisonError},
    thread,
};

use nix::{
    net::if_::if_nametoindex,
    sys::socket::{
        AddressFamily, LinkAddr, SockFlag, SockProtocol, SockType, recvfrom, setsockopt, socket, sockopt,
    },
};
use rc3_queue::Levels;
use serde::{Deserialize, Serialize};

use crate::net::transport::Result;

/// Packets that are remembered; those that a queue dropped are among them.
const REMEMBERED_MAX: usize = 100_000;
/// The socket's buffer in bytes, for the times when this process does not run.
const BUFFER: usize = 16 << 20;
/// Bytes of a packet that are read: headers of IP and UDP, and enough of the payload to tell packets apart.
const READ: usize = 128;
/// One worse packet may leave: it is being sent when the better one arrives.
const IN_TRANSMISSION: u64 = 1;
const UDP: u8 = 17;
/// `PACKET_OUTGOING` of packet(7).
const OUTGOING: u8 = 4;

/// Packets that left a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Waits {
    /// Of the primary.
    pub primary: u64,
    /// Of those, how many waited while more than one packet of RLP left.
    pub primary_behind: u64,
    /// Of RLP.
    pub rlp: u64,
    /// Of those, how many waited while more than one packet of a worse level left.
    pub rlp_behind: u64,
}

/// What is in a queue, and what has left it.
#[derive(Debug, Default)]
struct QueueContent {
    /// By identity: how many packets of worse levels had left when it arrived.
    waiting: HashMap<u64, u64>,
    /// How many packets worse than each level have left.
    left: [u64; Levels::COUNT],
    waits: Waits,
}

impl QueueContent {
    fn enter(&mut self, identity: u64, level: u8) {
        if self.waiting.len() >= REMEMBERED_MAX {
            self.waiting.clear();
        }
        self.waiting.insert(identity, self.left[usize::from(level)]);
    }

    fn leave(&mut self, identity: u64, level: u8) {
        self.left[..usize::from(level)].iter_mut().for_each(|worse| *worse += 1);
        let Some(left) = self.waiting.remove(&identity) else { return };
        let is_behind = u64::from(self.left[usize::from(level)] > left + IN_TRANSMISSION);
        let Waits { primary, primary_behind, rlp, rlp_behind } = &mut self.waits;
        let (packets, behind) = if level == 0 { (primary, primary_behind) } else { (rlp, rlp_behind) };
        *packets += 1;
        *behind += is_behind;
    }
}

/// The identity of an IPv4 packet with UDP, and its level; routers and cards change neither.
fn identify(packet: &[u8]) -> Option<(u64, u8)> {
    let udp = packet.get(usize::from(packet.first()? & 15) * 4..)?;
    let (ports, payload) = (udp.get(..4)?, udp.get(8..)?);
    let mut hasher = DefaultHasher::new();
    (ports, payload).hash(&mut hasher);
    (packet.get(9) == Some(&UDP)).then(|| (hasher.finish(), Levels::ladder().of(packet[1] >> 2)))
}

/// Watches what comes from the first devices and leaves by the last one. Answers each line of standard input by the
/// [`Waits`] since the line before.
pub(super) fn run(from: &[String], to: &str) -> Result<()> {
    let index = |name: &str| if_nametoindex(name).map(|index| index as usize);
    let from = from.iter().map(|name| index(name)).collect::<nix::Result<Vec<_>>>()?;
    let to = index(to)?;
    // Outgoing packets are only for sockets of all protocols.
    let socket =
        socket(AddressFamily::Packet, SockType::Datagram, SockFlag::SOCK_CLOEXEC, SockProtocol::EthAll)?;
    setsockopt(&socket, sockopt::RcvBufForce, &BUFFER)?;
    let queue = Arc::new(Mutex::new(QueueContent::default()));
    println!("ready");
    let watched = queue.clone();
    thread::spawn(move || {
        let mut packet = [0; READ];
        while let Ok((len, Some(link))) = recvfrom::<LinkAddr>(socket.as_raw_fd(), &mut packet) {
            let Some((identity, level)) = identify(&packet[..len.min(READ)]) else { continue };
            let mut queue = watched.lock().unwrap_or_else(PoisonError::into_inner);
            match link.pkttype() == OUTGOING {
                true if link.ifindex() == to => queue.leave(identity, level),
                false if from.contains(&link.ifindex()) => queue.enter(identity, level),
                _ => {}
            }
        }
    });
    for line in io::stdin().lines() {
        line?;
        let waits = std::mem::take(&mut queue.lock().unwrap_or_else(PoisonError::into_inner).waits);
        println!("{}", serde_json::to_string(&waits)?);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_is_behind_if_more_than_one_worse_packet_leaves_while_it_waits() {
        let mut queue = QueueContent::default();
        (0..4).for_each(|nth| queue.enter(nth, 2));
        queue.leave(0, 2);
        queue.enter(10, 0);
        queue.enter(11, 1);
        queue.leave(1, 2);
        queue.leave(10, 0);
        queue.leave(2, 2);
        queue.leave(11, 1);
        queue.leave(3, 2);
        // One that was not seen to arrive counts as having left only.
        queue.leave(12, 0);
        assert_eq!(queue.waits, Waits { primary: 1, primary_behind: 0, rlp: 5, rlp_behind: 1 });
        queue.enter(20, 0);
        (30..32).for_each(|nth| queue.leave(nth, 15));
        queue.leave(20, 0);
        assert_eq!((queue.waits.primary, queue.waits.primary_behind), (2, 1));
    }

    #[test]
    fn an_identity_is_that_of_the_datagram_and_not_of_its_header() {
        let mut packet = [0; 60];
        (packet[0], packet[1], packet[9]) = (0x45, 7 << 2, UDP);
        let (identity, level) = identify(&packet).unwrap();
        assert_eq!(level, 2);
        // Time to live and checksums.
        for at in [8, 10, 26] {
            packet[at] ^= 1;
        }
        assert_eq!(identify(&packet), Some((identity, 2)));
        packet[40] ^= 1;
        assert_ne!(identify(&packet), Some((identity, 2)));
        assert_eq!(identify(&packet[..20]), None);
        packet[9] = 6;
        assert_eq!(identify(&packet), None);
    }
}
